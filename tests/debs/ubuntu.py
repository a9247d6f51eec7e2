"""Ubuntu 24.04 from Ubuntu's own archive, which Debian's tools know neither the address nor the key of."""

import platform
import shutil
from pathlib import Path

from tributary.paths import CACHE

# The Ubuntu Archive Automatic Signing Key of 2018, F6EC B376 2474 EDA9 D21B 7022 8719 20D1 991B C93C, as the package
# ubuntu-keyring has it.
_KEY = Path(__file__).with_name("ubuntu-archive.asc")
_ARCHIVES = {"x86_64": "http://archive.ubuntu.com/ubuntu", "aarch64": "http://ports.ubuntu.com/ubuntu-ports"}


def sources(suite: str) -> tuple[str, ...]:
    """Lines of sources.list(5) for this processor; universe has mptcpize.

    The key is copied into the cache: apt's user may not be able to read a checkout, as in root's home.
    """
    archive, key = _ARCHIVES[platform.machine()], CACHE / _KEY.name
    shutil.copyfile(_KEY, key)
    pockets = (suite, f"{suite}-updates", f"{suite}-security")
    return tuple(f"deb [signed-by={key}] {archive} {pocket} main universe" for pocket in pockets)
