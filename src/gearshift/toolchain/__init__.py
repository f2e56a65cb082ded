"""The impure side of engines: finding, installing and removing them, and fetching demo weights."""

from gearshift.toolchain.demo import demo_gguf, demo_hf
from gearshift.toolchain.steps import InstallPlan, Step, StepProgress
from gearshift.toolchain.toolchain import DEFAULTS, Accelerator, Toolchain

__all__ = ["DEFAULTS", "Accelerator", "InstallPlan", "Step", "StepProgress", "Toolchain", "demo_gguf", "demo_hf"]
