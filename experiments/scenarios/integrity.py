"""Is every byte right: whole files by MPTCP with a second subflow, both ways at once, thousands of connections.

    client ==path1== gateway        veth as it is for a round trip of 0; emulated links of 1 Gbit/s for longer ones
           ==path2==                no converter: the gateway's own kernel is what is examined

Derived: transfers that came out wrong, by round-trip time; where their bytes lie and by how much they are displaced;
joins; what both kernels counted (DSSNotMatching, DataCsumErr, MPTCPRetrans), and waits of 190 ms or more. Expected: no
wrong byte from a round trip of 0.1 ms on. Without any delay recent kernels have a fault at the end that accepts a join
(docs/kernel.md): if the join's third ACK comes while a system call has the socket, mptcp_subflow_joined() runs later,
and lets a mapping that came meanwhile begin at the byte acknowledged last (net/mptcp/protocol.c). That displaces bytes
by the mapping's first byte less the acknowledged one, and both are seen on the wire. Wrong bytes of that kind are named
and do not fail the experiment, which is about this project's machines; of any other kind they do, at any round trip.

The waits are another fault of the same kernels: a byte that came while a system call had the socket is acknowledged to
TCP but not to MPTCP, and who has filled the window waits for MPTCP's own timer. They are counted and not judged.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from experiments.plots import bars, name_axes
from experiments.study.blueprint import Ground, Standing
from experiments.study.experiment import Count, Durations, Experiment
from experiments.study.readings import Decision, Estimate, Point, Reading, Readings, Verdict, at_least, at_most
from experiments.testbed.build import Testbed, standing
from experiments.testbed.cables import IDLE, LISTENER, join_by_second, lay
from experiments.testbed.node import Node, python
from experiments.testbed.topology import LinkSettings, Profile
from experiments.testbed.usage import counted
from tributary.settings.units import Duration, PositiveRate, Size

_PORT, _PAIRS = 9000, 6
"""So many connections at a time, as the fault is a matter of what the processors do meanwhile."""
_RATE, _QUEUE = PositiveRate(10**9), 10_000  # packets: room for all that is on its way at once
_JOINED = 0.5
"""Of all transfers: with less this would say little of joins. Some come when a short transfer is over already."""
_TOLD = 5
"""Wrong transfers of a reading that are recorded one by one."""
_COUNTERS = {"dss_not_matching": "DSSNotMatching", "data_csum_err": "DataCsumErr", "mptcp_retrans": "MPTCPRetrans"}
_NONE = Duration(0)


def distance(rtt: Duration, checksum: bool) -> Ground[Testbed]:
    """Two ways from the client to the gateway, ready for joins: cables for no delay, links for a round trip of ``rtt``.

    No link is held to its description: of what an emulator makes of 50 us, each reading tells.
    """
    link = LinkSettings(rate=_RATE, delay=Duration(rtt.amount // 2), queue=_QUEUE)
    profile = Profile(links={"path1": link, "path2": link}) if rtt.amount else IDLE

    @contextmanager
    def stands(name: str, seed: int, _tolerance: float) -> Iterator[Standing[Testbed]]:
        with standing(name, profile, seed) as testbed:
            for node in (testbed.client, testbed.gateway):
                node.sysctl(net__mptcp__checksum_enabled=int(checksum))
            if not rtt.amount:
                lay(testbed)
                join_by_second(testbed)
            yield Standing(testbed, emulation=testbed.emulation if rtt.amount else "cables")

    return Ground({"rtt": str(rtt), "checksum": checksum}, stands)


class Integrity(Experiment):
    """``transfers`` of ``size`` each way at every round-trip time ``rtt``, with MPTCP's checksums or without."""

    claim = "Every byte that MPTCP carries arrives where it belongs."
    expected = "No wrong byte from a round trip of 0.1 ms on; without a delay, those of the kernel's fault alone."
    over = "long-path.toml"
    quick = {"repeat": 1, "transfers": 500}

    transfers: Count = 1000
    size: Size = Size(400_000)
    rtt: Durations = (_NONE, Duration(100), Duration(10_000))
    checksum: bool = Field(default=False, description="true or false")

    def points(self, _topology: object) -> list[Point]:
        return [{"rtt": str(rtt)} for rtt in self.rtt]

    def blueprint(self, _profile: Profile, point: Point) -> Ground[Testbed]:
        return distance(Duration.parse(point["rtt"]), self.checksum)

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        client, gateway, near = testbed.client, testbed.gateway, Duration.parse(point["rtt"]) == _NONE
        listener = LISTENER if near else str(testbed.topology.links[0].gateway4)
        where = (listener, str(_PORT), str(_PAIRS), str(self.size.amount))
        with gateway.probe("integrity", "serve", *where), counted(client) as at_client, counted(gateway) as at_gateway:
            told = client.told(*python("experiments.probes.integrity", "send", *where, str(self.transfers)))
            counts = _counts(at_client(), at_gateway())
        return Reading(point, repetition, _values(told) | counts | {"rtt_ms": _round_trip(client, listener)})

    def judge(self, _topology: object, readings: Readings) -> Iterator[Verdict]:
        for rtt in self.rtt:
            yield from _verdicts(rtt, readings.at(rtt=str(rtt)))

    def draw(self, figure: Figure, _topology: object, readings: Readings) -> None:
        """What happened, in a thousand transfers."""
        axes = figure.subplots()
        distances = sorted({Duration.parse(reading.point["rtt"]) for reading in readings})
        shown = {
            "wrong": ("#D55E00", "transfers with wrong bytes"),
            "dss_not_matching_gateway": ("#E69F00", "mappings refused (DSSNotMatching)"),
            "waits": ("#0072B2", "waits of 190 ms or more"),
        }
        by_rtt = [readings.at(rtt=str(rtt)) for rtt in distances]
        heights = {
            name: [Estimate(1000 * sum(each.values(value)) / sum(each.values("transfers")), 0) for each in by_rtt]
            for value, (_, name) in shown.items()
        }
        colours = {name: colour for colour, name in shown.values()}
        for each in bars(axes, [str(rtt) for rtt in distances], heights, colours):
            axes.bar_label(each, fmt="%.1f", fontsize=8)
        name_axes(axes, "round trip", "in a thousand transfers", "y", legend=True)


def _counts(client: Counter[str], gateway: Counter[str]) -> dict[str, float]:
    counts = {"joins": float(gateway["MPTcpExtMPJoinAckRx"])}
    for name, counter in _COUNTERS.items():
        for node, counted_there in (("client", client), ("gateway", gateway)):
            counts[f"{name}_{node}"] = float(counted_there[f"MPTcpExt{counter}"])
    return counts


def _values(told: Mapping[str, Any]) -> dict[str, float]:
    """The probe's sums; ``explained`` are wrong transfers that are displaced as the kernel's fault does."""
    wrong: Sequence[Mapping[str, Any]] = told["wrong"]
    values = {
        "transfers": told["transfers"],
        "failed": sum(told["failed"].values()),
        "wrong": len(wrong),
        "explained": sum("mapping" in each for each in wrong),
        "waits": told["waits"],
    }
    for number, each in enumerate(wrong[:_TOLD], start=1):
        values |= {f"wrong_{number}_{name}": value for name, value in _displacement(each).items()}
    return {name: float(value) for name, value in values.items()}


def _displacement(wrong: Mapping[str, Any]) -> dict[str, int]:
    """From where to where, by how much, and by how much it were by the kernel's fault."""
    found = {name: wrong[name] for name in ("first", "end", "shift") if name in wrong}
    return found | ({"fault": wrong["mapping"][0] - wrong["acknowledged"]} if "mapping" in wrong else {})


def _round_trip(client: Node, listener: str) -> float:
    """The median of a hundred pings, in milliseconds."""
    printed = client.run("ping", "-n", "-i", "0.005", "-c", "100", listener)
    times = sorted(float(line.partition("time=")[2].split()[0]) for line in printed.splitlines() if "time=" in line)
    return times[len(times) // 2]


def _verdicts(rtt: Duration, readings: Readings) -> Iterator[Verdict]:
    every, wrong, explained, failed = (
        sum(readings.values(name)) for name in ("transfers", "wrong", "explained", "failed")
    )
    where = f"(round trip {rtt})"
    if rtt == _NONE:
        named = f"{wrong:.0f} of {every:.0f} transfers wrong, {explained:.0f} of them displaced as by that fault"
        claim = f"no byte is wrong but by the kernel's known fault of joins {where}"
        decision = Decision.HOLDS if wrong == explained else Decision.FAILS
        yield Verdict(claim, named, "none of another kind", decision)
    else:
        yield at_most(f"every byte is right {where}", wrong, 0, f"wrong of {every:.0f} transfers")
    yield at_most(f"every transfer ends {where}", failed, 0, f"failed of {every:.0f}")
    joins = sum(readings.values("joins")) / every
    yield at_least(f"transfers have a second subflow {where}", joins, _JOINED, "joins a transfer")
