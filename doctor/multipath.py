"""Whether the kernel's MPTCP lets clients join, and whether it has fallen back: ip-mptcp(8), mptcp-sysctl.rst."""

import re
from collections.abc import Mapping

from doctor.findings import Finding, State, ok

_CHECK = "MPTCP"
_EXEMPT_SINCE = (6, 7)
_LEAST_SUBFLOWS = 2
"""Beyond the first one; the kernel's default. A client with three links needs two."""


def parse_limits(text: str) -> dict[str, int]:
    """From ``ip mptcp limits show``: ``add_addr_accepted 0 subflows 2``."""
    words = text.split()
    return {name: int(number) for name, number in zip(words[::2], words[1::2], strict=False)}


def parse_counters(netstat: str) -> dict[str, int]:
    """The counters MPTcpExt of /proc/net/netstat, whose lines come in pairs: names, then numbers."""
    lines = [line.split() for line in netstat.splitlines() if line.startswith("MPTcpExt:")]
    return dict(zip(lines[0][1:], map(int, lines[1][1:]), strict=True)) if len(lines) == 2 else {}


def judge_limits(limits: Mapping[str, int]) -> Finding:
    """Whether a session may have further subflows."""
    subflows = limits.get("subflows")
    if subflows is None:
        return Finding(_CHECK, State.UNKNOWN, "ip does not say how many subflows a session may have")
    if subflows >= _LEAST_SUBFLOWS:
        return ok(_CHECK, f"a session may have {subflows} subflows beside its first")
    fix = ("ip", "mptcp", "limits", "set", "subflows", "8")
    return Finding(_CHECK, State.WRONG, f"a session may have only {subflows} subflows beside its first", (fix,))


def judge_switch(enabled: str | None) -> Finding:
    """Whether net.mptcp.enabled is on."""
    if enabled == "1":
        return ok(_CHECK, "switched on")
    if enabled is None:
        return Finding(_CHECK, State.WRONG, "this kernel has none", advice="see the finding on the kernel")
    return Finding(_CHECK, State.WRONG, "switched off", (("sysctl", "-w", "net.mptcp.enabled=1"),))


def judge_low_mark(release: str, *, attached: bool | None) -> Finding:
    """Whether subflows obey tcp_notsent_lowat on this release (uname(2)); ``attached`` is None for who may not look."""
    number = tuple(map(int, re.findall(r"\d+", release)[:2]))
    if attached or number < _EXEMPT_SINCE:
        return ok(_CHECK, "subflows obey net.ipv4.tcp_notsent_lowat")
    if attached is None:
        return Finding(_CHECK, State.UNKNOWN, "only root sees whether subflows obey net.ipv4.tcp_notsent_lowat")
    message = "subflows are exempt from net.ipv4.tcp_notsent_lowat: a slow one may hold much that all wait for"
    advice = "journalctl --unit tributary-low-mark says whether this kernel cannot"
    return Finding(_CHECK, State.WRONG, message, (("systemctl", "restart", "tributary-low-mark.service"),), advice)


def judge_counters(counters: Mapping[str, int]) -> list[Finding]:
    """Counters since boot that hint at a path without MPTCP, or at a full table."""
    return [
        Finding(_CHECK, State.NOTE, f"{counters[name]} times {meaning} ({name})", advice=advice)
        for name, meaning, advice in _HINTS
        if counters.get(name)
    ]


_HINTS = (
    (
        "Blackhole",
        "SYNs with MPTCP got no answer and those without it did, so that it was switched off for a while",
        "doctor --path HOST:PORT shows which path drops them",
    ),
    (
        "MPCapableFallbackACK",
        "a client's path lost the option after its SYN",
        "a middlebox on that client's path strips MPTCP options",
    ),
    ("MPFallbackTokenInit", "a session fell back to TCP since there was no free token", "fewer sessions a gateway"),
    ("MPJoinAckHMacFailure", "a join had a wrong HMAC", "somebody tries to join sessions that are not theirs"),
)
