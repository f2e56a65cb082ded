"""The doctor: facts gathered once, then many small pure checks over them, and findings with a way out."""

from gearshift.advice.doctor.case import Box, Case, EngineProcess, Pins, Setup
from gearshift.advice.doctor.examination import BOX_CHECKS, VARIANT_CHECKS, examine
from gearshift.advice.doctor.finding import Finding, Severity

__all__ = [
    "BOX_CHECKS",
    "VARIANT_CHECKS",
    "Box",
    "Case",
    "EngineProcess",
    "Finding",
    "Pins",
    "Setup",
    "Severity",
    "examine",
]
