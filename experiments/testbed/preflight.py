"""What must be there before anything is changed: root, an MPTCP kernel, the tools, a way to emulate links."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from experiments.testbed.links import need_an_emulator
from tributary.settings.cli import need_root
from tributary.settings.errors import CommandError, Exit

_TOOLS = ("ip", "tc", "ss", "nft", "sysctl", "ethtool", "ping", "nginx", "squid", "mptcpize")


def need_all(command: str) -> None:
    """Raise CommandError for the first thing that ``command`` would miss: exit 77 without root, 69 for the rest."""
    need_root(command)
    if not Path("/proc/sys/net/mptcp/enabled").exists():
        raise CommandError(
            Exit.UNAVAILABLE, "this kernel has no MPTCP (CONFIG_MPTCP): Debian's kernels since 11 have it"
        )
    need_tools(_TOOLS)
    need_an_emulator()


def need_tools(tools: Iterable[str], how: str = "scripts/setup installs them") -> None:
    """Raise CommandError (exit 69) with all of ``tools`` that are not here, and ``how`` they come."""
    if missing := [tool for tool in tools if shutil.which(tool) is None]:
        raise CommandError(Exit.UNAVAILABLE, f"not found: {', '.join(missing)}: {how}")
