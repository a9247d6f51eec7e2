"""Ubuntu 24.04 from Ubuntu's own archive, which Debian's tools know neither the address nor the key of."""

import platform
from pathlib import Path

# The Ubuntu Archive Automatic Signing Key of 2018, F6EC B376 2474 EDA9 D21B 7022 8719 20D1 991B C93C, as the package
# ubuntu-keyring has it.
_KEY = Path(__file__).with_name("ubuntu-archive.asc")
_ARCHIVES = {"x86_64": "http://archive.ubuntu.com/ubuntu", "aarch64": "http://ports.ubuntu.com/ubuntu-ports"}


def sources(suite: str) -> tuple[str, ...]:
    """Lines of sources.list(5) for this processor; universe has mptcpize."""
    archive = _ARCHIVES[platform.machine()]
    pockets = (suite, f"{suite}-updates", f"{suite}-security")
    return tuple(f"deb [signed-by={_KEY}] {archive} {pocket} main universe" for pocket in pockets)
