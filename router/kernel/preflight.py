"""What endpoints need to have an effect."""

from pathlib import Path

from tributary.settings.errors import CommandError, Exit

_SWITCHES = Path("/proc/sys/net/mptcp")


def check() -> None:
    """Raises CommandError, exit 69, if MPTCP is off here, or left to a path manager in user space."""
    if _read("enabled") != "1":
        raise CommandError(
            Exit.UNAVAILABLE, "MPTCP is off in this network namespace: switch it on (sysctl net.mptcp.enabled=1)"
        )
    # 0 is the kernel's own; Linux 6.15 calls it "kernel" in another file and keeps this one.
    if _read("pm_type") not in ("0", ""):
        raise CommandError(
            Exit.UNAVAILABLE,
            "the kernel's path manager is off, since one in user space (mptcpd) is wanted: switch it on"
            " (sysctl net.mptcp.pm_type=0)",
        )


def _read(name: str) -> str:
    try:
        return (_SWITCHES / name).read_text(encoding="ascii").strip()
    except OSError:
        return ""
