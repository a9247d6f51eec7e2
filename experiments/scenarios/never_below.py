"""MPTCP over pairs of links drawn by lot: is a download, from its first byte, ever slower than over the best one alone?

    client ==first==== gateway ---- server     each link: 5 to 200 Mbit/s, 5 to 600 ms, a queue of 10 ms to 2 s, and
           ==second===                         no loss, or 0.1 to 3 %
           ==third====                         in every sixth case

A case is a set of links and a size, in half of them of 16 kB to 1 MB, in the others of 4 to 64 MB, as far as the
fastest link has it within six seconds. The cases are a Latin hypercube: of every quantity's range each case has a part
of its own, whatever the others are. The same ``seed`` draws the same cases.

Derived: throughput from the request on, slow start included, by the native converter: with the kernel's own settings,
with the appliance's without its low mark for unsent bytes, with all of the appliance's (kernel-config/), and with these
where the session begins on the link that would bring a short one first, as at a home router (router/links/quickest.py).
The same with steering (throttler/steering) is measured in the client's second download: in the first one it learns.
Beside it legacy TCP over each link in the same run: as a share of the best one, and of the sum of all.

Expected: the kernel's scheduler goes by what waits in a subflow over its pacing rate (mptcp_subflow_get_send() in
net/mptcp/protocol.c), and with much unsent in the fast one it takes the slow one for as quick: hence the low mark. A
download that begins on a slow link has to wait for it: its first bytes are on their way before any other subflow is
there. A short one is over by then (docs/steering.md). Subflows obey the mark where the manifest says low_mark_obeyed.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import median, quantiles
from typing import Annotated

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from experiments.plots import tidy
from experiments.scenarios.downloads import LEGACY, NO_MARK, fetched, values_of
from experiments.study.blueprint import TestbedBlueprint
from experiments.study.experiment import Experiment, Seconds, some_of
from experiments.study.metrics import RATIO, Metric
from experiments.study.plot import resize
from experiments.study.readings import Decision, Point, Reading, Readings, Repeated, Verdict
from experiments.testbed.appliance import throttler_status
from experiments.testbed.build import Testbed
from experiments.testbed.server import random_file
from experiments.testbed.topology import NO_DELAY, NO_LOSS, LinkSettings, Profile, Topology
from router.links.quickest import short_download
from tributary.settings.units import Duration, PositiveRate, Share, Size

KERNEL, _UNMARKED, APPLIANCE, ROUTER, _STEERED = "kernel", "unmarked", "appliance", "router", "steered"
_STYLES = {KERNEL: "#D55E00", _UNMARKED: "#0072B2", APPLIANCE: "black", ROUTER: "#009E73", _STEERED: "#CC79A7"}
"""What is compared, in its colours; beside these any number of bytes: as at the router, with that low mark."""
NAMES = ("first", "second", "third")
_SHORT = tuple(map(Size.parse, ("16kB", "64kB", "250kB", "1MB")))
"""Downloads that may be over before a session has all its paths."""
LONG = tuple(map(Size.parse, ("4MB", "8MB", "16MB", "32MB", "64MB")))

_RATES = (5e6, 200e6)  # bits per second
_ROUND_TRIPS = (5e3, 600e3)  # microseconds
_QUEUES = (0.01, 2.0)  # seconds
_LOSSES = (1e3, 30e3)  # millionths, of those that lose at all
_PACKET = 1500 * 8  # bits
_LEAST_QUEUE = 20  # packets
_AT_MOST = 6.0  # seconds that the fastest link's rate would need
_DIMENSIONS = 1 + 4 * len(NAMES)

_LEAST = 0.97  # of the best link's throughput, or of that with the kernel's own settings
_WHAT_IS_LEFT = "what the settings leave, and why, is in docs/steering.md"

Compared = Annotated[tuple[str, ...], some_of(_STYLES, ", or bytes of a low mark", str.isdecimal)]


@dataclass(frozen=True)
class Case:
    """A set of links, the first of which begins each session, and how much goes over them; ``load`` says it of others
    than one download.
    """

    links: dict[str, LinkSettings]
    size: Size
    load: Mapping[str, str] = field(default_factory=dict)


@cache
def drawn_cases(count: int, seed: int) -> tuple[Case, ...]:
    """``count`` of them: each point asks for its own."""
    chance = random.Random(f"never-below {seed}")
    columns = [column(count, chance) for _ in range(_DIMENSIONS)]
    return tuple(_case(number, list(row)) for number, row in enumerate(zip(*columns, strict=True)))


def column(count: int, chance: random.Random) -> list[float]:
    """A number from 0 to 1 out of each of ``count`` equal parts of that, in any order."""
    return [(part + chance.random()) / count for part in chance.sample(range(count), count)]


def _case(number: int, row: list[float]) -> Case:
    names = NAMES if number % 6 == 5 else NAMES[:2]
    links = {name: _link(*row[1 + 4 * place : 5 + 4 * place]) for place, name in enumerate(names)}
    fastest = max(link.rate.amount for link in links.values() if link.rate)
    possible = [size for size in LONG if 8 * size.amount <= _AT_MOST * fastest] or LONG[:1]
    sizes, share = (_SHORT, 2 * row[0]) if row[0] < 0.5 else (possible, 2 * row[0] - 1)
    return Case(links, sizes[int(share * len(sizes))])


def _link(rate: float, round_trip: float, loss: float, queue: float) -> LinkSettings:
    """One that these numbers from 0 to 1 stand for: all but the loss on a logarithmic scale, none in half of all."""
    bits = _between(_RATES, rate)
    return LinkSettings(
        rate=PositiveRate(round(bits / 1e5) * 100_000),
        delay=Duration(round(_between(_ROUND_TRIPS, round_trip) / 1000) * 500),
        loss=Share(0 if loss < 0.5 else round(_between(_LOSSES, 2 * loss - 1) / 1000) * 1000),
        queue=max(_LEAST_QUEUE, round(bits * _between(_QUEUES, queue) / _PACKET)),
    )


def _between(bounds: tuple[float, float], share: float) -> float:
    least, most = bounds
    return least * float((most / least) ** share)


class NeverBelow(Experiment):
    """How many ``cases`` are drawn, by which ``seed``; every download breaks off after ``longest`` seconds."""

    claim = "Over several links a download is never slower than over the best of them alone."
    expected = "Most are as quick where sessions begin on the quickest link; what begins on a slow one waits for it."
    quick = {"repeat": 1, "cases": 2, "longest": 4.0}
    own_axes = {"net.ipv4.tcp_notsent_lowat": "settings"}

    cases: int = Field(default=60, ge=1, description="a whole number of cases, at least 1")
    seed: int = Field(default=1, description="a whole number")
    longest: Seconds = 12.0
    settings: Compared = tuple(_STYLES)

    def drawn(self) -> Sequence[Case]:
        return drawn_cases(self.cases, self.seed)

    def points(self, _topology: Topology) -> list[Point]:
        return [
            {
                "case": str(number),
                "links": _described(case),
                "size": str(case.size),
                **case.load,
                **who,
                "family": "ipv4",
            }
            for number, case in enumerate(self.drawn())
            for who in (
                *({"settings": APPLIANCE, "by": LEGACY, "link": link} for link in case.links),
                *({"settings": each, "by": "native", "link": NAMES[0]} for each in self.settings),
            )
        ]

    def blueprint(self, _profile: Profile, point: Point) -> TestbedBlueprint:
        settings = point["settings"]
        links = ordered(self.drawn()[int(point["case"])], settings)
        mark = str(NO_MARK) if settings == _UNMARKED else settings
        sysctls = {"net.ipv4.tcp_notsent_lowat": mark} if mark.isdecimal() else {}
        return TestbedBlueprint(Profile(links=links), settings != KERNEL, sysctls, steered=settings == _STEERED)

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        if point["settings"] != _STEERED:
            return self.transfer(testbed, point, repetition)
        self.transfer(testbed, point, repetition)
        learned = throttler_status(testbed).steering.learned
        reading = self.transfer(testbed, point, repetition)
        # Without either, what differs from a reading without steering is chance.
        decisions = sum(throttler_status(testbed).steering.decisions.values())
        return replace(reading, values={**reading.values, "learned": float(learned), "decisions": float(decisions)})

    def transfer(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        file = random_file(Size.parse(point["size"]).amount, seed=repetition)
        download = fetched(testbed, point, file, self.longest)
        return Reading(point, repetition, values_of(download, 0), download.series())

    def judge(self, _topology: Topology, readings: Readings) -> Iterator[Verdict]:
        found = results(readings)
        long, short = [each for each in found if not each.short], [each for each in found if each.short]
        yield from _none_below(f"a long transfer has {100 * _LEAST:.0f} % of the best link or more", long, "of_best")
        yield from _none_below(f"so has one of {_SHORT[-1]} or less", short, "of_best")
        yield from _none_below("the appliance's settings cost nothing beside the kernel's own", found, "of_kernel")

    def metrics(self, readings: Readings) -> list[Metric]:
        found = results(readings)
        long = [each.of_best for each in found if not each.short and each.of_best is not None]
        short = [each.of_best for each in found if each.short and each.of_best is not None]
        total = [each.total for each in found if each.clean and not each.short and each.total is not None]
        return [
            Metric("worst_vs_best_link", sorted(long)[:1], RATIO),
            Metric("p5_vs_best_link", quantiles(long, n=20, method="inclusive")[:1] if len(long) > 1 else long, RATIO),
            Metric("median_vs_sum", total, RATIO),
            Metric("short_worst_vs_best_link", sorted(short)[:1], RATIO),
        ]

    def draw(self, figure: Figure, _topology: Topology, readings: Readings) -> None:
        """The share of cases below each share of the best link."""
        found = results(readings)
        resize(figure, 10, 4.5)
        panels = figure.subplots(1, 2, sharey=True)
        _draw_shares(panels[0], "longer than 1 MB", [each for each in found if not each.short])
        _draw_shares(panels[1], "1 MB and less", [each for each in found if each.short])
        figure.supxlabel("throughput, times that of the best single link", fontsize=10)
        panels[0].set_ylabel("share of the cases below")
        panels[0].legend(frameon=False, fontsize=8)


def ordered(case: Case, settings: str) -> dict[str, LinkSettings]:
    """Its links: the first one begins the session, and the others join."""
    links = [*case.links.values()]
    if settings in (ROUTER, _STEERED) or settings.isdecimal():
        links.sort(key=lambda link: short_download(_round_trip(link).amount / 1e6, link.rate))
    return dict(zip(NAMES, links, strict=False))


def _described(case: Case) -> str:
    """Rate, round-trip time, loss and packets of queue of each link."""
    links = case.links.values()
    return "; ".join(f"{each.rate} {_round_trip(each)} {each.loss} {each.queue}" for each in links)


def _round_trip(link: LinkSettings) -> Duration:
    return Duration(2 * link.delay.amount) if link.delay else NO_DELAY


@dataclass(frozen=True)
class Result:
    """What a case gave: medians over the repetitions, each of which compares its own readings.

    ``best`` is the share of the best link's throughput, by the settings; ``total`` that of the sum, at a router.
    ``clean``: no link of it loses.
    """

    title: str
    short: bool
    clean: bool
    best: Mapping[str, float]
    total: float | None

    @property
    def of_best(self) -> float | None:
        """At a router."""
        return self.best.get(ROUTER)

    @property
    def of_kernel(self) -> float | None:
        both = [self.best.get(each) for each in (APPLIANCE, KERNEL)]
        return both[0] / both[1] if both[0] and both[1] else None


def results(readings: Readings) -> list[Result]:
    """Of every case."""
    return [_result(readings.at(case=case)) for case in dict.fromkeys(each.point["case"] for each in readings)]


def _result(readings: Readings) -> Result:
    point = next(iter(readings)).point
    links, size = point["links"].split("; "), Size.parse(point["size"])
    alone = [readings.at(by=LEGACY, link=name).repeated("mbps") for name in NAMES[: len(links)]]
    most, total = Repeated.of_all(max, alone), Repeated.of_all(sum, alone)
    compared = dict.fromkeys(each.point["settings"] for each in readings.at(by="native"))
    through = {each: readings.at(by="native", settings=each).repeated("mbps") for each in compared}
    best = {settings: (mbps / most).numbers.values() for settings, mbps in through.items()}
    of_total = (through[ROUTER] / total).numbers.values() if ROUTER in through else ()
    return Result(
        title=f"{size} over {point['links']}{_load(point)}",
        short=size in _SHORT,
        clean=all(each.split()[2] == str(NO_LOSS) for each in links),
        best={settings: median(shares) for settings, shares in best.items() if shares},
        total=median(of_total) if of_total else None,
    )


def _load(point: Point) -> str:
    """What is not one download."""
    return "".join(f", {point[key]}" for key in ("load", "trouble") if key in point)


def _none_below(claim: str, found: Sequence[Result], share: str) -> Iterator[Verdict]:
    """No verdict where no case has the share. The worst case is named; it fails if half of them are below."""
    shares = [(number, each.title) for each in found if (number := getattr(each, share)) is not None]
    if not shares:
        return
    below = [each for each in shares if each[0] < _LEAST]
    least, title = min(shares)
    measured = f"{len(shares) - len(below)} of {len(shares)} cases, the least {least:.2f} ({title})"
    usual = median(number for number, _ in shares)
    decision = Decision.HOLDS if not below else Decision.DIFFERS if usual >= _LEAST else Decision.FAILS
    yield Verdict(claim, measured, f"at least {_LEAST:.2f} in each case", decision, _WHAT_IS_LEFT if below else "")


def _draw_shares(axes: Axes, title: str, found: Sequence[Result]) -> None:
    for settings in dict.fromkeys(settings for each in found for settings in each.best):
        shares = [each.best[settings] for each in found if settings in each.best]
        axes.ecdf(shares, color=_STYLES.get(settings), label=settings)
    axes.axvline(1, color="#999999", linewidth=1)
    axes.set_xlim(0, 2)
    axes.set_title(f"{title} ({len(found)} cases)", fontsize=10)
    tidy(axes, "both")
