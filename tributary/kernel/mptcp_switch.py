"""Whether MPTCP is on in this network namespace, and who manages its paths (mptcp-sysctl.rst)."""

from tributary.kernel import sysctl
from tributary.settings.errors import CommandError, Exit

SWITCH = "net/mptcp/enabled"
_PATH_MANAGER = "net/mptcp/pm_type"


def require_mptcp() -> None:
    """Raises CommandError, exit 69, unless the kernel has MPTCP and it is on in this network namespace."""
    switch = sysctl.read(SWITCH)
    if switch is None:
        raise CommandError(Exit.UNAVAILABLE, "the kernel has no MPTCP (CONFIG_MPTCP)")
    if switch != "1":
        raise CommandError(
            Exit.UNAVAILABLE, "MPTCP is off in this network namespace: switch it on (sysctl net.mptcp.enabled=1)"
        )


def require_path_manager() -> None:
    """Raises CommandError, exit 69, if MPTCP is off here, or left to a path manager in user space."""
    require_mptcp()
    # 0 is the kernel's own; Linux 6.15 calls it "kernel" in another file and keeps this one.
    if sysctl.read(_PATH_MANAGER) not in ("0", "", None):
        raise CommandError(
            Exit.UNAVAILABLE,
            "the kernel's path manager is off, since one in user space (mptcpd) is wanted: switch it on"
            " (sysctl net.mptcp.pm_type=0)",
        )


def require_user_space() -> None:
    """Raises CommandError, exit 69, if MPTCP is off here, or its path manager is the kernel's own."""
    require_mptcp()
    if sysctl.read(_PATH_MANAGER) != "1":
        raise CommandError(
            Exit.UNAVAILABLE,
            "the kernel's path manager does not let a program make one subflow of a session a backup: leave paths to"
            " user space before the converter starts (sysctl net.mptcp.pm_type=1)",
        )
