"""A CUDA driver for programs that load libcuda: compiled from C, so that it is called and crashes as a real one."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("libcuda.c")


def build_libcuda(folder: Path) -> Path:
    """The library as the dynamic linker looks for it; ``folder`` goes into LD_LIBRARY_PATH."""
    library = folder / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, SOURCE], check=True)
    return folder


def cuda_env(folder: Path, script: str) -> dict[str, str]:
    """The environment in which a program finds the card that ``script`` describes (see libcuda.c)."""
    return {"LD_LIBRARY_PATH": str(folder), "FAKE_CUDA": script}
