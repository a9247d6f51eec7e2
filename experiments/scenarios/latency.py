"""How long small requests take over a link that a bulk download fills, and over one that it is kept off.

    client ==wired====== gateway ---- server     the requests, each on a connection of its own, through the same
           ==wireless===                         converter: by legacy TCP, or by MPTCP that begins on the wired link
                                                 the bulk download: MPTCP over both links

Loads: none; the bulk download; the same with fair queues in front of the wired link, where the kernel has fq_codel; the
same with its wired subflow held to 5 Mbit/s by the throttler; and with 1,000 packets of queue in the held class.

Derived: the time from a connection's first packet to the response's last byte, its median and other percentiles; the
download's rate; the held subflow's round-trip time.

Expected: a full queue of the link, 100 packets at 100 Mbit/s, is 12 ms, and a request meets it twice, with the answer
to its SYN and with its response: 24 ms. Cubic takes three tenths off what is on its way (RFC 9438 section 4.6), 183
packets at most, of which 83 fit into the link's 10 ms: 45 stay in the queue, 5.4 ms, twice. So a bulk download adds
more than a fifth of those 24 ms. One that is held adds less: it waits in a queue of its own, and behind that a packet
of it takes 0.12 ms. Fair queues do as much for a link that the download goes on filling.

A long queue in the held class is the held subflow's alone, so that no request waits in it. Nor does the subflow: its
sender is on the same host, and TCP small queues (tcp_small_queue_check() in net/ipv4/tcp_output.c) let it have two
buffers there, which are frames on links without segmentation offload. Two of 2.4 ms, beside the link's 10 ms, do not
double what the short queue of 10 ms gives. With offload they would: scripts/bench run queueing-delay shows that.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from statistics import median, quantiles
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from experiments.fetch import download_command
from experiments.plots import name_axes
from experiments.scenarios.downloads import file_lasting
from experiments.study.blueprint import CONVERTERS
from experiments.study.experiment import Experiment, Seconds
from experiments.study.readings import Point, Reading, Readings, Verdict, at_least, at_most, every
from experiments.testbed import native
from experiments.testbed.appliance import WIRED_SLOW, held_round_trip, lengthen_held_queue, start_throttler
from experiments.testbed.build import Testbed
from experiments.testbed.links import kernel_has_qdisc
from experiments.testbed.node import Process
from experiments.testbed.server import random_file
from experiments.testbed.topology import Link, Topology
from tributary.settings.errors import CommandError, Exit
from tributary.settings.units import Size

_KINDS = ("legacy", "multipath")
_SHARE = 0.2  # of what full queues add to a request
_FULL_PACKET = 8 * 1500  # bits
_LONGER = 2.0  # times the held subflow's round-trip time with a short queue
_SHOWN = {"whislo": "p5_ms", "q1": "p25_ms", "med": "p50_ms", "q3": "p75_ms", "whishi": "p95_ms"}
IDLE, BULK, FAIR, HELD, HELD_LONG = "idle", "bulk", "bulk-fair-queue", "bulk-throttled", "bulk-throttled-long-queue"
LOADS = (IDLE, BULK, FAIR, HELD, HELD_LONG)

_FAIR_SHARE = 0.95  # of the link's rate
_MARGIN = 30.0  # seconds that the file of a bulk download lasts beyond what is planned
_POINTS = every(load=LOADS, converter=CONVERTERS, request=_KINDS)

Seen = Callable[[], dict[str, float]]


class Latency(Experiment):
    """Requests for ``size`` bytes, one ``every`` so many seconds, for ``seconds``; loads have time to ``settle``."""

    claim = "Throttling one subflow of a bulk download keeps its link quick for others."
    expected = "The median time of a request is back within 4.8 ms of that on idle links."
    quick = {"repeat": 1, "seconds": 1.2, "settle": 0.7}
    least_links = 2
    at = _POINTS

    size: Size = Size(4_000)
    every: float = Field(default=0.05, ge=0, description="a number of seconds")
    seconds: Seconds = 5.0
    settle: Seconds = 2.0

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        """Requests under a load; no values, and so no verdicts, where this kernel lacks what the load needs."""
        if point["load"] == FAIR and not kernel_has_qdisc("fq_codel"):
            return Reading(point, repetition, {})
        with loaded(testbed, point["load"], CONVERTERS[point["converter"]], self.settle) as seen:
            times = self._requests(testbed, point)
            load = seen()
        return Reading(point, repetition, _values(times) | load)

    def judge(self, topology: Topology, readings: Readings) -> Iterator[Verdict]:
        for converter, kind in product(CONVERTERS, _KINDS):
            these = readings.at(converter=converter, request=kind)
            yield from _verdicts(topology.links[0], these, f"{converter}, {kind}")

    def draw(self, figure: Figure, _topology: Topology, readings: Readings) -> None:
        """From 5 % to 95 % of the requests, the box from a quarter to three, the line in the middle."""
        titled = {
            f"{kind}, {name}": readings.at(request=kind, converter=name) for name in CONVERTERS for kind in _KINDS
        }
        panels = figure.subplots(1, len(titled), sharey=True)
        for axes, (title, some) in zip(panels, titled.items(), strict=True):
            _draw_boxes(axes, some)
            axes.set_title(title, fontsize=10)
        figure.supylabel("time of a request, ms")

    def _requests(self, testbed: Testbed, point: Point) -> list[float]:
        topology = testbed.topology
        file = random_file(self.size.amount, seed=1)
        command = [
            *native.load("poll", "--to", f"{topology.SERVER4}:80", "--path", f"/{file.path.name}"),
            *("--via-http-proxy", f"{topology.PROXY4}:{CONVERTERS[point['converter']]}"),
            *("--source", str(topology.links[0].client4)),
            *("--seconds", str(self.seconds), "--every", str(self.every)),
            *(["--mptcp"] if point["request"] == "multipath" else []),
        ]
        return [float(each) for each in testbed.client.told(*command)["ms"]]


def _values(times: Sequence[float]) -> dict[str, float]:
    steps = quantiles(times, n=20, method="inclusive") if len(times) > 1 else [*times] * 19
    shown = {f"p{percent}_ms": steps[percent // 5 - 1] for percent in (5, 25, 75, 95)}
    return shown | {"p50_ms": median(times), "max_ms": max(times), "count": float(len(times))}


def _verdicts(link: Link, readings: Readings, who: str) -> Iterator[Verdict]:
    added = _SHARE * 2 * link.down.queue * _FULL_PACKET / link.down.rate.amount * 1000
    idle, bulk, fair, held, held_long = (readings.at(load=load).repeated("p50_ms") for load in LOADS)
    round_trip, with_long_queue = (readings.at(load=load).repeated("held_rtt_ms") for load in (HELD, HELD_LONG))
    bound = idle + added
    yield at_least(f"a bulk download makes requests wait ({who})", bulk, bound, "ms")
    if fair.numbers:
        yield at_most(f"fair queues spare them that ({who})", fair, bound, "ms")
    yield at_most(f"behind one that is held they do not wait ({who})", held, bound, "ms")
    yield at_most(f"nor do they with a long queue in the held class ({who})", held_long, bound, "ms")
    yield at_most(f"nor does the held subflow ({who})", with_long_queue, round_trip * _LONGER, "ms")


def _draw_boxes(axes: Axes, readings: Readings) -> None:
    loads = [load for load in LOADS if readings.at(load=load).values("p50_ms")]
    boxes: list[dict[str, Any]] = [
        {key: readings.at(load=load).estimate(name).mean for key, name in _SHOWN.items()} for load in loads
    ]
    axes.bxp(boxes, showfliers=False)
    axes.set_xticks(range(1, len(loads) + 1), loads, rotation=30, ha="right", fontsize=8)
    name_axes(axes, along="y")


@contextmanager
def loaded(testbed: Testbed, load: str, proxy: int, settle: float) -> Iterator[Seen]:
    """``load``, through the converter at the port ``proxy``, for the length of the block, ``settle`` seconds old.

    The function given says what was seen of it since: ``bulk_mbps``, and of a held subflow ``held_rtt_ms``. Raises
    CommandError if the download ended before the block.
    """
    with ExitStack() as stack:
        if load in (HELD, HELD_LONG):
            stack.enter_context(start_throttler(testbed, WIRED_SLOW))
        if load == FAIR:
            stack.enter_context(_fair_queue(testbed))
        if load == IDLE:
            yield dict
            return
        file = file_lasting(testbed.topology, 2 * settle + _MARGIN, seed=1)
        command = download_command(testbed, file, testbed.topology.links[0].name, proxy)
        bulk = stack.enter_context(testbed.client.start("bulk", command)).wait_for_output()
        time.sleep(settle)
        if load == HELD_LONG:
            lengthen_held_queue(testbed)
            time.sleep(settle)
        before = _progress(bulk)

        def seen() -> dict[str, float]:
            seconds, count = (now - then for then, now in zip(before, _progress(bulk), strict=True))
            values = {"bulk_mbps": 8e-6 * count / seconds if seconds else 0.0}
            return values | ({"held_rtt_ms": held_round_trip(testbed)} if load in (HELD, HELD_LONG) else {})

        yield seen


@contextmanager
def _fair_queue(testbed: Testbed) -> Iterator[None]:
    """Of a little less than the first link carries: packets wait there, each flow for itself, not in the link."""
    link = testbed.topology.links[0]
    rate = int(_FAIR_SHARE * link.down.rate.amount)
    where = ("dev", link.name)
    testbed.gateway.run("tc", "qdisc", "add", *where, "root", "handle", "1:", "htb", "default", "1")
    try:
        shape = ("htb", "rate", f"{rate}bit", "burst", "15140b", "cburst", "15140b")
        testbed.gateway.run("tc", "class", "add", *where, "parent", "1:", "classid", "1:1", *shape)
        testbed.gateway.run("tc", "qdisc", "add", *where, "parent", "1:1", "fq_codel")
        yield
    finally:
        testbed.gateway.run("tc", "qdisc", "delete", *where, "root")


def _progress(bulk: Process) -> tuple[float, int]:
    """Seconds since the request, and bytes of the body: what the download told last."""
    lines = bulk.output().splitlines()
    if not lines or bulk.popen.poll() is not None:
        raise CommandError(
            Exit.SYSTEM, f"the bulk download does not run: {lines[-1] if lines else 'it printed nothing'}"
        )
    last = json.loads(lines[-1])
    return last["at"], last["bytes"]
