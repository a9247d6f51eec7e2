"""Whether what is written in Rust can be built here."""

import subprocess
from functools import cache


@cache
def works() -> bool:
    """Whether cargo is here and answers: rustup's refuses every command of a user who has no toolchain."""
    try:
        return subprocess.run(["cargo", "--version"], capture_output=True, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
