"""What a relay costs while it relays, and once its work is offloaded to the kernel (converter/offload).

    client --- relay --- server      plain cables; one transfer, every byte of it checked

The relay offloads in the middle of the transfer: before and after are moments of the same connection, ends and machine.

The processor time is all that the relay's node takes: the process, and two threads that take in what comes to its
devices. By default veth has the sender take in what comes, so the ends have such threads as well:
theirs is not counted to the relay's node, and nothing of its own to them.

``large``: the cables carry segments of 64 kB, as a network interface that cuts and joins segments by itself has the
kernel see them (TSO, LRO), and as veth does. ``small``: they carry 1500 bytes, and the node's processor joins what
comes and cuts what goes, before and after. Here every device has a queue, as a network interface has: without one, veth
drops what its ring of 256 packets does not hold, some hundred of each transfer.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path

from pydantic import Field

from experiments.scenarios.cabled import cables_with
from experiments.study.blueprint import Ground
from experiments.study.experiment import Experiment, Repeat
from experiments.study.metrics import Metric, metrics_of, ratio
from experiments.study.readings import Point, Reading, Readings
from experiments.testbed import native
from experiments.testbed.build import Testbed
from experiments.testbed.cables import CLIENT_SIDE, LISTENER, ORIGIN, SERVER_SIDE, offload_relay
from experiments.testbed.node import Node, Process
from experiments.testbed.topology import Profile
from experiments.testbed.usage import Clocks, bytes_passed
from tributary.settings.errors import CommandError, Exit
from tributary.settings.units import Size

_RELAY = f"{LISTENER}:7000"
_THREADED = 'echo 1 > "/sys/class/net/$0/threaded"'
_SAMPLE = 0.01
_SETTLED = 0.5
"""Seconds after the change that belong neither to before nor to after, and in which the dip is looked for."""
_FEWEST = 10
"""Moments before and after the change that a pace is of."""
_LONGEST = 120
DOWN, UP = "download", "upload"
LARGE, SMALL = "large", "small"
_MTUS = {LARGE: 65_000, SMALL: 1500}
_QUEUES = {LARGE: None, SMALL: 1000}
_RECEIVERS_SIDE = {DOWN: CLIENT_SIDE, UP: SERVER_SIDE}
_SIZES, _WAYS = {LARGE: "", SMALL: "small_"}, {DOWN: "", UP: "upload_"}
"""What names of figures have in front for each."""
_MEASURED = (*("before_cpu_ms_per_gb", "after_cpu_ms_per_gb", "before_mbps", "after_mbps"), *("paused_ms", "dip_ms"))


def takes_in_by_thread(node: Node, device: str) -> int:
    """Has the kernel take in what comes to a veth device in a thread (Documentation/networking/napi.rst, "Threaded
    NAPI") for as long as the device exists, and not as part of what the sender does; returns the thread's pid.

    Segments pass one by one, as on a wire, and become larger ones where they come in: else veth has no NAPI of its own
    (veth_skb_is_eligible_for_gro() in drivers/net/veth.c). The cable's other end needs the same. Raises CommandError:
    exit 69 if the thread is not seen.
    """
    node.run("ethtool", "-K", device, "tso", "off", "gro", "on")
    ours = f"napi/{device}-"
    before = _threads(ours)
    node.run("sh", "-c", _THREADED, device)
    made = _threads(ours) - before
    if len(made) != 1:
        message = (
            f"{len(made)} new threads napi/{device}-NUMBER in /proc: needed is one, by a kernel with threaded NAPI"
        )
        raise CommandError(Exit.UNAVAILABLE, message)
    return made.pop()


def _threads(beginning: str) -> set[int]:
    found = set()
    for comm in Path("/proc").glob("[0-9]*/comm"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            if comm.read_text().startswith(beginning):
                found.add(int(comm.parent.name))
    return found


@dataclass(frozen=True)
class Relayed:
    """The nodes, cabled, and the pids of the threads that take in what comes to the relay's."""

    testbed: Testbed
    threads: Sequence[int]


def threaded(mtu: int, queue: int | None) -> Ground[Relayed]:
    """Those, with cables that carry packets of up to ``mtu`` bytes, after ``queue`` others at most."""

    @contextmanager
    def relayed(testbed: Testbed) -> Iterator[Relayed]:
        ends = ((testbed.client, CLIENT_SIDE), (testbed.server, SERVER_SIDE))
        own = ((testbed.gateway, CLIENT_SIDE), (testbed.gateway, SERVER_SIDE))
        for node, device in ends + own:
            node.ip("link", "set", device, "mtu", str(mtu))
            if queue is not None:
                node.run("tc", "qdisc", "add", "dev", device, "root", "pfifo", "limit", str(queue))
        for end in ends:
            takes_in_by_thread(*end)
        yield Relayed(testbed, [takes_in_by_thread(*each) for each in own])

    return cables_with(relayed, mtu=mtu, queue=queue)


@dataclass(frozen=True)
class Sample:
    """A moment: seconds, bytes that went to the receiver, processor seconds of the node; whether it is offloaded."""

    at: float
    sent: int
    processor: float
    offloaded: bool


class Offload(Experiment):
    """``size`` of each transfer of large segments, ``small`` of those of small ones; the relay offloads once half of it
    has passed.
    """

    claim = "What does a relay cost, and what once its work is offloaded to the kernel?"
    quick = {"repeat": 1, "size": "10GB", "small": "2500MB"}
    in_turn = True
    at = [{"segments": size, "direction": way} for size, way in product(_MTUS, (DOWN, UP))]

    repeat: Repeat = 5
    size: Size = Field(default=Size(12_000_000_000), description="a size, such as '12GB'")
    small: Size = Field(default=Size(12_000_000_000), description="a size, such as '12GB'")

    def blueprint(self, _profile: Profile, point: Point) -> Ground[Relayed]:
        return threaded(_MTUS[point["segments"]], _QUEUES[point["segments"]])

    def measure(self, built: Relayed, point: Point, repetition: int) -> Reading:
        """Raises CommandError (exit 1) if a byte was wrong or the relay offloaded nothing."""
        size = (self.small if point["segments"] == SMALL else self.size).amount
        gateway, devices = built.testbed.gateway, (CLIENT_SIDE, SERVER_SIDE)
        with offload_relay(gateway, _RELAY, ORIGIN, devices, size // 2) as relay:
            samples = _transfer(built, relay, point["direction"], size)
            if not samples[-1].offloaded:
                raise CommandError(Exit.WRONG_RESULT, f"the relay offloaded nothing: {relay.output().strip()}")
            paused = next(line["paused"] for line in relay.reports() if "paused" in line)
        return Reading(point, repetition, told(samples) | {"paused_ms": float(paused)})

    def metrics(self, readings: Readings) -> list[Metric]:
        """Of downloads of large segments the plain names, of others with what differs. Ratios are each transfer's."""
        found: list[Metric] = []
        for (segments, size), (direction, way) in product(_SIZES.items(), _WAYS.items()):
            these, prefix = readings.at(segments=segments, direction=direction), size + way
            before, after = (
                {value: these.repeated(f"{when}_{value}") for value in ("cpu_ms_per_gb", "mbps")}
                for when in ("before", "after")
            )
            found += metrics_of(these, _MEASURED, prefix)
            found.append(ratio(f"offload_{prefix}cpu_saving", before["cpu_ms_per_gb"], after["cpu_ms_per_gb"]))
            found.append(ratio(f"offload_{prefix}throughput", after["mbps"], before["mbps"]))
        return found


def _transfer(built: Relayed, relay: Process, direction: str, size: int) -> list[Sample]:
    clocks, testbed = Clocks([relay.popen.pid, *built.threads]), built.testbed
    how = ("--verify",) if direction == DOWN else ("--upload",)
    bulk = native.load("bulk", "--to", _RELAY, "--bytes", str(size), *how)
    counts, samples = Path(f"/proc/{relay.popen.pid}/net/dev"), list[Sample]()
    with testbed.client.start("bulk", bulk) as client:
        end = time.monotonic() + _LONGEST
        while client.popen.poll() is None and time.monotonic() < end:
            _, sent = bytes_passed(counts.read_text())[_RECEIVERS_SIDE[direction]]
            offloaded = bool(samples and samples[-1].offloaded) or '"paused"' in relay.output()
            samples.append(Sample(time.monotonic(), sent, clocks.seconds(), offloaded))
            time.sleep(_SAMPLE)
        if client.popen.poll() != 0:
            raise CommandError(
                Exit.WRONG_RESULT, f"the {direction} failed: {client.output().strip() or 'it took too long'}"
            )
    return samples


def told(samples: Sequence[Sample]) -> dict[str, float]:
    """What the moments of one transfer come to. Pure; raises CommandError (exit 1) if it was over too soon."""
    change = next(sample.at for sample in samples if sample.offloaded)
    # The first fifth is slow start, and the ends' buffers that grow.
    begun = samples[0].at + (change - samples[0].at) / 5
    before = [sample for sample in samples if begun <= sample.at < change - _SETTLED]
    after = [sample for sample in samples if sample.at >= change + _SETTLED]
    if len(before) < _FEWEST or len(after) < _FEWEST:
        least = f"before and after the relay offloads {2 * _SETTLED:g} s are needed: a larger size gives them"
        raise CommandError(Exit.WRONG_RESULT, f"the transfer took {samples[-1].at - samples[0].at:.1f} s: {least}")
    values = _pace("before", before) | _pace("after", after)
    about = [sample for sample in samples if abs(sample.at - change) <= _SETTLED]
    slow = values["before_mbps"] / 2
    dips = (b.at - a.at for a, b in pairwise(about) if 8e-6 * (b.sent - a.sent) / (b.at - a.at) < slow)
    return values | {"dip_ms": 1000 * sum(dips)}


def _pace(name: str, samples: Sequence[Sample]) -> dict[str, float]:
    first, last = samples[0], samples[-1]
    sent = last.sent - first.sent
    return {
        f"{name}_mbps": 8e-6 * sent / (last.at - first.at),
        f"{name}_cpu_ms_per_gb": 1e12 * (last.processor - first.processor) / sent,
    }
