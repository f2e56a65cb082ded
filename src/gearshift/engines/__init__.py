"""Engines as pure functions: variant and placement to launch spec, help text to flag map, log lines to a report."""

from gearshift.engines.check import check
from gearshift.engines.flags import packaged_flags
from gearshift.engines.help import parse_help
from gearshift.engines.launch import default_inflight, launch_spec, log_fold

__all__ = ["check", "default_inflight", "launch_spec", "log_fold", "packaged_flags", "parse_help"]
