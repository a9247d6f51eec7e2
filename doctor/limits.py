"""Whether a gateway's limits suffice for its connections, and whether its clock is synchronized."""

from doctor.findings import Finding, State, ok

_LEAST_FILES = 1_048_576
"""Descriptors a process may have: two for each connection (LimitNOFILE of the units)."""
_FULL = 0.8


def judge_files(nr_open: int) -> Finding:
    """``nr_open``: the most descriptors that a process may be given (proc_sys_fs(5))."""
    if nr_open >= _LEAST_FILES:
        return ok("limits", f"a process may have {nr_open} open files")
    fix = (("sysctl", "-w", f"fs.nr_open={_LEAST_FILES}"),)
    return Finding("limits", State.WRONG, f"a process may have {nr_open} open files, two a connection", fix)


def judge_tracking(count: int | None, most: int | None) -> Finding:
    """``count`` and maximum of tracked connections; None without tracking."""
    if count is None or most is None:
        return ok("limits", "connections are not tracked")
    if most == 0:
        return ok("limits", f"{count} tracked connections, of which there may be any number")
    counted = f"{count} of {most} tracked connections"
    if count < _FULL * most:
        return ok("limits", counted)
    fix = (("sysctl", "-w", f"net.netfilter.nf_conntrack_max={4 * most}"),)
    return Finding("limits", State.WRONG, f"{counted}: new ones will be dropped", fix)


def judge_clock(synchronized: str) -> Finding:
    """``synchronized`` is what ``timedatectl show --property=NTPSynchronized --value`` printed."""
    if synchronized == "yes":
        return ok("clock", "synchronized")
    if synchronized == "no":
        fix = (("timedatectl", "set-ntp", "true"),)
        advice = "where that is so already, no time server answers: it ends when one does"
        return Finding("clock", State.WRONG, "not synchronized: logs and quotas may have wrong times", fix, advice)
    return Finding("clock", State.UNKNOWN, "timedatectl does not say whether it is synchronized")
