"""Something happens to a link during a download through the converter, and is over some seconds later.

    client ==wired==#= gateway ---- server     cut, flap, half-dead: frames get lost here, both ways
           ==wireless=                         address-change: the client leaves this network, and joins again from
                                               another address of it

`cut` is a black hole; `flap` five equal parts: cut, whole, cut, whole, cut; `half-dead` loses every other frame at
random. With `address-change` the joined path's address goes, and another one comes, as when a phone roams; MPTCP's
endpoint goes and comes with them. Of the other events the kernel's path manager learns nothing.

Derived: the longest time without a byte for the application, the time from the event's end until the path carries bytes
again, the throughput meanwhile, and whether every byte is right.

Expected: nothing is lost, since MPTCP keeps a byte until it is acknowledged at the connection's level (RFC 8684 section
3.3.2). A cut's gap is that of the bytes on their way over the dead path. They go out again over the other one when the
retransmission timer ends: after 0.2 s (TCP_RTO_MIN in include/net/tcp.h), and, since each try takes twice as long as
the one before, after 0.7, 1.6, 3.4 and 6.9 s. There they wait behind what is queued, and what the dead path had been
given follows them: of a send buffer that begins with 2 MB for each path (tcp_wmem) up to 0.8 s of 20 Mbit/s. So the gap
stays below 2 seconds, with a second try. With the kernel's own buffers it is shorter: that is the price of the same
buffer that keeps a lossy second link from holding up the first one (see the scenario `grid`). With 16 kB to begin with
gaps of 0.35 to 0.5 s were measured, with 4 MB 0.6 to 1.2 s; beside a link of 60 ms that loses 1 % a link of 50 Mbit/s
gave 19 to 30 Mbit/s with the one, and 42 to 49 with 2 MB or more.

A path that is whole again shows itself by a retransmission. With tcp_rto_max_ms=1000 they are a second apart at most,
and two seconds leave room for one that is lost; without, five seconds after a cut the next one is two seconds away.

With every other frame lost each way TCP carries next to nothing. What MPTCP had given that subflow, up to its send
buffer's end, has to go by the other link before there is room for more, 0.8 s of 20 Mbit/s or twice that; and each try
waits for a timer, of a second at most. So of five seconds about half is left for new bytes; a third leaves room for a
second such wait. Less is left of a shorter time.
"""

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from itertools import pairwise
from threading import Event

from matplotlib.figure import Figure

from experiments.fetch import fetch
from experiments.plots import colours_of, paths
from experiments.record import Download, Sample
from experiments.scenarios.downloads import file_lasting, reading_of
from experiments.study.blueprint import CONVERTERS, TestbedBlueprint
from experiments.study.experiment import Experiment, Seconds
from experiments.study.readings import Point, Reading, Readings, Verdict, at_least, at_most, worst
from experiments.testbed.build import Testbed
from experiments.testbed.impairment import lossy, other_address, without_address
from experiments.testbed.topology import Profile, Topology

_LONGEST_GAP, _LONGEST_RETURN = 2.0, 2.0  # seconds
_SHARE = 0.33  # of the other link's rate, while one is half-dead
_EVERY, _DRAWN_EVERY = 0.01, 0.1  # seconds between samples
Course = Generator[float, None, None]
"""An event, step by step: it yields how many seconds shall pass before it goes on."""
Happening = Callable[[Testbed, float, ExitStack], Course]
"""It is given the seconds that it lasts, and a stack for what is undone when the download is over."""


class Failover(Experiment):
    """Seconds of a download before the event, as long as it lasts, and after it."""

    claim = "A download outlives what happens to one of its links, and uses the link again when it is over."
    expected = "Every byte right; a gap below 2 s when a link is cut, and the path back within 2 s of its return."
    quick = {"repeat": 1, "before": 1.0, "down": 4.0, "after": 2.0}
    least_links = 2
    any_links = True

    before: Seconds = 2.0
    down: Seconds = 5.0
    after: Seconds = 5.0

    @property
    def seconds(self) -> float:
        return self.before + self.down + self.after

    def points(self, topology: Topology) -> list[Point]:
        """Every event by each converter; a cut by the other families, and two events without the appliance's kernel
        settings, as well.
        """
        points = [_point(event, converter) for event in EVENTS for converter in CONVERTERS]
        bare = [_point(event, "native", settings="kernel") for event in ("cut", "half-dead")]
        return [*points, *(_point("cut", "native", family=each) for each in topology.families[1:]), *bare]

    def blueprint(self, profile: Profile, point: Point) -> TestbedBlueprint:
        return TestbedBlueprint(profile, tuned=point["settings"] == "appliance")

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        topology = testbed.topology
        file = file_lasting(topology, self.seconds, seed=1)
        proxy, ipv6 = CONVERTERS[point["converter"]], point["family"] == "ipv6"
        with ExitStack() as afterwards:
            course = EVENTS[point["event"]](testbed, self.down, afterwards)
            with taking(course, self.before) as (progress, lasted):
                how = (topology.links[0].name, proxy, ipv6, progress, self.seconds, _EVERY)
                download = fetch(testbed, point["converter"], file, *how)
        begun, ended = (at - download.started for at in lasted.result())
        hit = topology.links[1 if point["event"] == "address-change" else 0]
        values = values_of(download, (begun, ended), hit.name)
        whole = {"whole": float(download.sha256 == file.sha256_of(download.size))}
        drawn = replace(download, samples=_evenly(download.samples))
        return reading_of(drawn, point, repetition, values | whole)

    def judge(self, topology: Topology, readings: Readings) -> Iterator[Verdict]:
        for point in self.points(topology):
            yield from _verdicts(point, topology, readings.at(**point))
        own, bare = (
            readings.at(**_point("cut", "native", settings=name)).repeated("back_s") for name in ("appliance", "kernel")
        )
        sooner = "the appliance's kernel settings bring the path back sooner than the kernel's own (cut, native)"
        yield at_most(sooner, own, bare, "s after the event")

    def draw(self, figure: Figure, topology: Topology, readings: Readings) -> None:
        points = {event: _point(event, "native") for event in EVENTS}
        points["cut, the kernel's\nown settings"] = _point("cut", "native", settings="kernel")
        titled = {title: next(iter(readings.at(**point))) for title, point in points.items()}
        panels = paths(figure, colours_of(link.name for link in topology.links), titled)
        for axes, reading in zip(panels, titled.values(), strict=True):
            axes.axvspan(reading.values["begun_s"], reading.values["ended_s"], color="black", alpha=0.15, linewidth=0)


def _point(event: str, converter: str, family: str = "ipv4", settings: str = "appliance") -> Point:
    return {"event": event, "converter": converter, "family": family, "settings": settings}


def values_of(download: Download, event: tuple[float, float], path: str) -> dict[str, float]:
    """What follows from a download; the ``event`` began and ended in so many seconds since the request, and happened
    to the ``path``.
    """
    samples, (begun, ended) = download.samples, event
    moved = _at(samples, ended).body - _at(samples, begun).body
    return {
        "seconds": download.seconds,
        "mbps": download.mbps,
        "begun_s": begun,
        "ended_s": ended,
        "dip_mbps": 8 * moved / (ended - begun) / 1e6,
        "gap_s": max(now.at - then.at for then, now in pairwise(samples) if now.at > begun),
        "back_s": _back(samples, path, ended),
    }


def _at(samples: Sequence[Sample], seconds: float) -> Sample:
    """The last one that is not later, or the first."""
    return [samples[0], *(sample for sample in samples if sample.at <= seconds)][-1]


def _back(samples: Sequence[Sample], path: str, since: float) -> float:
    """Seconds until ``path`` has carried payload again; all that were watched, if it never has."""
    before = _at(samples, since).by_path().get(path, 0)
    later = (sample.at for sample in samples if sample.at > since and sample.by_path().get(path, 0) > before)
    return next(later, samples[-1].at) - since


def _evenly(samples: Sequence[Sample]) -> list[Sample]:
    """The state at regular times, so that a time without a sample is one without a byte."""
    times = (number * _DRAWN_EVERY for number in range(1, int(samples[-1].at / _DRAWN_EVERY) + 1))
    return [replace(_at(samples, at), at=at) for at in times]


def _verdicts(point: Point, topology: Topology, readings: Readings) -> Iterator[Verdict]:
    who = ", ".join(point.values())
    wrong = [1 - whole for whole in readings.values("whole")]
    yield worst(f"every byte is right ({who})", wrong, 0, "downloads that were not")
    if point["event"] == "cut":
        yield at_most(f"the gap is short ({who})", readings.estimate("gap_s"), _LONGEST_GAP, "s")
    if point["settings"] == "kernel":
        return
    yield at_most(f"the path is back ({who})", readings.estimate("back_s"), _LONGEST_RETURN, "s after the event")
    if point["event"] == "half-dead":
        bound = _SHARE * topology.links[1].down.rate.amount / 1e6
        yield at_least(f"the other link goes on ({who})", readings.estimate("dip_mbps"), bound, "Mbit/s meanwhile")


def losing(*percents: int) -> Happening:
    """In equal parts of the time the first link loses so many of all packets at random, each way."""

    def course(testbed: Testbed, seconds: float, _afterwards: ExitStack) -> Course:
        for percent in percents:
            with lossy(testbed, testbed.topology.links[0], percent) if percent else nullcontext():
                yield seconds / len(percents)

    return course


def address_change(testbed: Testbed, seconds: float, afterwards: ExitStack) -> Course:
    """The client is gone from the second link, and comes back with another address, until ``afterwards``."""
    joined = testbed.topology.links[1]
    afterwards.enter_context(without_address(testbed, joined))
    yield seconds
    afterwards.enter_context(other_address(testbed, joined, str(joined.client4 + 1)))


EVENTS: Mapping[str, Happening] = {
    "cut": losing(100),
    "flap": losing(100, 0, 100, 0, 100),
    "half-dead": losing(50),
    "address-change": address_change,
}


@contextmanager
def taking(course: Course, before: float) -> Iterator[tuple[Callable[[int], None], Future[tuple[float, float]]]]:
    """An event takes its ``course`` beside the block, from ``before`` seconds after the first bytes on.

    The function given is to be called when bytes have come; then there is from when to when it lasted, in Unix time. If
    the block fails, the event is broken off.
    """
    requested, broken_off = Event(), Event()

    def take() -> tuple[float, float]:
        requested.wait()
        broken_off.wait(before)
        begun = time.time()
        for pause in course:
            if broken_off.wait(pause):
                break
        return begun, time.time()

    with closing(course), ThreadPoolExecutor(1) as executor:
        lasted = executor.submit(take)
        try:
            yield lambda _received: requested.set(), lasted
        except BaseException:
            broken_off.set()
            requested.set()
            raise
