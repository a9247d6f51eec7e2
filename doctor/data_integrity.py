"""Whether the kernel misplaces MPTCP's bytes, as far as it notices: two readings of three counters.

Linux has two faults in what comes by MPTCP from very near, such as another virtual machine or container of one host
(docs/kernel.md). The counters are those of this network namespace since it was made; an increase happens now.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from doctor.findings import Finding, State, ok
from doctor.multipath import parse_counters

BETWEEN = 2.0  # seconds
_CHECK = "integrity"
_MISPLACED, _CHECKSUM, _WAITED = "DSSNotMatching", "DataCsumErr", "MPTCPRetrans"
_OFTEN = 3
"""Retransmissions a second: a wait lasts 200 ms, so that one connection that stands still has five."""

_NEAR = (
    "Between virtual machines or containers of one host set net.mptcp.checksum_enabled=1 on both ends, or better run a"
    " kernel with kernel-config/mptcp-join.patch (scripts/build-kernel); a delay of a tenth of a millisecond avoids it"
    " as well. docs/kernel.md explains why"
)
_FAR = "From farther away it takes a middlebox that changes what it passes on: doctor --path HOST:PORT from the client"
_DAMAGES = (
    (
        _MISPLACED,
        "bytes of a subflow did not fit the place that their mapping names",
        ". The kernel noticed these, and ended the subflow; newer kernels (seen: 6.18) put others into the wrong place"
        " and notice nothing. TLS then breaks the connection, plain HTTP delivers a wrong file",
        _NEAR,
    ),
    (_CHECKSUM, "a checksum of MPTCP kept wrong bytes out", "", f"{_NEAR}. {_FAR}"),
)
"""Counters of damage: what was seen, what comes of it, and what would help."""


def read(netstat: Path = Path("/proc/self/net/netstat")) -> dict[str, int]:
    """The counters as they are now; empty without MPTCP."""
    return parse_counters(netstat.read_text())


def sample(
    counters: Callable[[], Mapping[str, int]] = read, sleep: Callable[[float], None] = time.sleep
) -> list[Finding]:
    """Read the counters twice, ``BETWEEN`` seconds apart, and judge."""
    before = counters()
    sleep(BETWEEN)
    return judge(before, counters())


def judge(before: Mapping[str, int], after: Mapping[str, int]) -> list[Finding]:
    """Findings from the second reading, and its increase since the first."""
    findings = [*_damage(before, after), *_retransmissions(before, after)]
    names = ", ".join((_MISPLACED, _CHECKSUM, _WAITED))
    return findings or [ok(_CHECK, f"no bytes were displaced as far as the kernel noticed, nothing waits ({names})")]


def _damage(before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[Finding]:
    for name, what, consequence, advice in _DAMAGES:
        if count := after.get(name, 0):
            gained = count - before.get(name, 0)
            now = f", {gained} of them in the last {BETWEEN:g} s" if gained else ""
            message = f"{count} times {what} ({name}{now}){consequence}"
            yield Finding(_CHECK, State.WRONG if gained > 0 else State.NOTE, message, advice=advice)


def _retransmissions(before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[Finding]:
    """Some retransmissions are normal when a link fails: only many at once are reported."""
    gained = after.get(_WAITED, 0) - before.get(_WAITED, 0)
    if gained >= _OFTEN * BETWEEN:
        message = (
            f"{gained} times in {BETWEEN:g} s MPTCP sent something again after a wait of 200 ms or more ({_WAITED}): a"
            " link has failed, or the receiver of an upload is so near that its acknowledgements come too late"
        )
        advice = (
            "Between virtual machines or containers of one host spread what their interfaces receive over the"
            " processors: echo a mask of other processors than the sender's into queues/rx-0/rps_cpus of each"
            " (docs/kernel.md). Or is a link down? tributary-doctor --role router --only routing,endpoints"
        )
        yield Finding(_CHECK, State.NOTE, message, advice=advice)
