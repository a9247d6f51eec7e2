"""The demo's verdict: the numbers of summary.json, and whether what the appliance promises holds. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from experiments.enforcement import Enforcement
from experiments.record import Download
from experiments.study.readings import Verdict, at_least, at_most, exactly
from experiments.testbed.topology import NATIVE_PORT, PROXY_PORT, Topology

WIRED, WIRELESS = "wired", "wireless"
LEGACY_WIRED, LEGACY_WIRELESS = "legacy_wired", "legacy_wireless"
MPTCP, NATIVE, THROTTLED = "mptcp", "mptcp_native", "mptcp_throttled"


@dataclass(frozen=True)
class Way:
    """One way to download: over which link it starts, and the port of the gateway's proxy, if by MPTCP."""

    name: str
    title: str
    link: str
    proxy: int | None = None


WAYS = (
    Way(LEGACY_WIRED, "legacy TCP over wired", WIRED),
    Way(LEGACY_WIRELESS, "legacy TCP over wireless", WIRELESS),
    Way(MPTCP, "MPTCP through Squid", WIRED, PROXY_PORT),
    Way(NATIVE, "MPTCP, native converter", WIRED, NATIVE_PORT),
    Way(THROTTLED, "MPTCP, wired throttled", WIRED, PROXY_PORT),
)

_SUM_SHARE = 0.90  # of what the two links carry by legacy TCP
_HELD_MARGIN = 1.05
_LINK_SHARE = 0.85


@dataclass(frozen=True)
class BeyondWindow:
    """What the gateway's kernel sent beyond the receive window, in one download.

    A duplicate ACK can carry a new DATA_ACK and a window that is smaller, as its right edge stays. TCP takes no window
    from such an ACK; MPTCP adds the old one to the new DATA_ACK (ack_update_msk() in net/mptcp/options.c, seen with
    Linux 6.18) and sends too much. The client acknowledges that by TCP and drops it: both subflows then wait for
    MPTCP's timer, at least 200 ms for each piece that is sent again.
    """

    dropped: int = 0
    """Packets, by the client (MPTcpExtNoDSSInWindow)."""
    sent_again: int = 0
    """Pieces, by the gateway's timer (MPTcpExtMPTCPRetrans)."""


@dataclass(frozen=True)
class Run:
    """All that the demo measured; ``held_mbps`` is the rate that the policy holds the wired subflow to.

    ``beyond_window`` is of the throttled download.
    """

    downloads: Mapping[str, Download]
    sha256: str
    topology: Topology
    held_mbps: float
    enforcement: Enforcement
    beyond_window: BeyondWindow = BeyondWindow()

    @property
    def throttled_after(self) -> float:
        """Seconds from the start of the throttled download to its throttling."""
        return self.enforcement.first_held - self.downloads[THROTTLED].started


def summary(run: Run) -> dict[str, object]:
    """The content of summary.json."""
    return {
        **{name: _download(run, download) for name, download in run.downloads.items()},
        "enforcement_ms": round(run.enforcement.milliseconds, 3),
        "throttled_after_s": round(run.throttled_after, 3),
        "beyond_window": asdict(run.beyond_window),
        "claims": [claim.as_json() for claim in claims(run)],
    }


def kernels_part(run: Run) -> str | None:
    """What the kernel itself took from the throttled download, if it did."""
    beyond = run.beyond_window
    if not beyond.dropped:
        return None
    return (
        f"the throttled download waited for the kernel: {beyond.dropped} packets went beyond the client's receive "
        f"window, {beyond.sent_again} pieces were sent again after 200 ms or more each (docs/architecture.md)"
    )


def claims(run: Run) -> list[Verdict]:
    """What the appliance promises, each held against what was measured."""
    legacy = [run.downloads[name].mbps for name in (LEGACY_WIRED, LEGACY_WIRELESS)]
    mptcp, native, throttled = (run.downloads[name] for name in (MPTCP, NATIVE, THROTTLED))
    whole = sum(download.sha256 == run.sha256 for download in run.downloads.values())
    wireless = next(link.down.rate.amount for link in run.topology.links if link.name == WIRELESS) / 1e6
    both = _SUM_SHARE * sum(legacy)
    carrying = min(sum(count > 0 for count in each.samples[-1].received.values()) for each in (mptcp, native))
    held, free = (throttled.wire_mbps(path, run.throttled_after) for path in (WIRED, WIRELESS))
    return [
        _equals("downloads that arrive whole (SHA-256)", whole, len(run.downloads)),
        _equals("subflows that carry data with MPTCP, by either converter", carrying, 2),
        at_least("MPTCP reaches 90 % of the sum of both links", mptcp.mbps, both, "Mbit/s"),
        at_least("the native converter reaches 90 % of the sum of both links", native.mbps, both, "Mbit/s"),
        at_least("MPTCP beats the faster link", mptcp.mbps, max(legacy), "Mbit/s"),
        at_most("wired, throttled, on the wire", held, _HELD_MARGIN * run.held_mbps, "Mbit/s"),
        at_least("wireless, while wired is throttled, on the wire", free, _LINK_SHARE * wireless, "Mbit/s"),
        _equals("subflows of the throttled download: no reconnect", throttled.subflows, 2),
    ]


def _download(run: Run, download: Download) -> dict[str, object]:
    after = run.throttled_after if download.name == THROTTLED else 0
    end = download.samples[-1].by_path()
    total = sum(end.values())
    subflows = [
        {
            "path": path,
            "bytes": count,
            "mbps": round(8 * count / download.seconds / 1e6, 2),
            "share": round(count / total, 4),
            "wire_mbps": round(download.wire_mbps(path, after), 2),
        }
        for path, count in sorted(end.items())
    ]
    return {
        "seconds": round(download.seconds, 3),
        "mbps": round(download.mbps, 2),
        "sha256_ok": download.sha256 == run.sha256,
        "subflows": subflows,
    }


def _equals(claim: str, measured: int, bound: int) -> Verdict:
    return exactly(claim, str(measured), str(bound))
