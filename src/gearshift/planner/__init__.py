"""Where each byte of a device will go, whether it fits, and how fast the hardware allows it to be. Pure.

What the rooms above ask. One engine's own rules (`vllm_*`, `llamacpp_*`) are imported from their modules.
"""

from gearshift.planner.answers import Lever, levers, longest_context, model_longest, streams_at_once
from gearshift.planner.calibration import Calibration
from gearshift.planner.ceiling import Ceiling, Hardware, Workload, decode_ceiling, lone_verification_s
from gearshift.planner.comparison import calibration_of, differences
from gearshift.planner.document import JsonValue, plan_document
from gearshift.planner.gpus import Gpu, MeasuredBandwidth, card_of, parse_gpu
from gearshift.planner.ledger import DeviceLedger, Line, PagedKv, Plan, SlotKv
from gearshift.planner.planning import plan, plan_requested, plan_variant, settled
from gearshift.planner.request import DeviceKind, PlannedDevice, PlanRequest
from gearshift.planner.variant_request import draft_weights, planned_devices, request_for
from gearshift.planner.workload import hardware_of, workload_of

__all__ = [
    "Calibration",
    "Ceiling",
    "DeviceKind",
    "DeviceLedger",
    "Gpu",
    "Hardware",
    "JsonValue",
    "Lever",
    "Line",
    "MeasuredBandwidth",
    "PagedKv",
    "Plan",
    "PlanRequest",
    "PlannedDevice",
    "SlotKv",
    "Workload",
    "calibration_of",
    "card_of",
    "decode_ceiling",
    "differences",
    "draft_weights",
    "hardware_of",
    "levers",
    "lone_verification_s",
    "longest_context",
    "model_longest",
    "parse_gpu",
    "plan",
    "plan_document",
    "plan_requested",
    "plan_variant",
    "planned_devices",
    "request_for",
    "settled",
    "streams_at_once",
    "workload_of",
]
