"""What clients get of objects from 16 kB to 64 MB, by hand-off, by proxies in the front's place, and directly.

    client ==2 links== switch ==1 link each== front or proxy, back end a, back end b

All links of a node have one rate. What passes a proxy has to leave it by its one link, so clients get that link's rate.
Past the front goes nothing but heads and what front and back ends tell each other: clients get the rate of both back
ends' links, twice that of a proxy, less what the hand-over of each request costs, which the size of an object does not
change. Two objects of 64 kB take one link of 1 Gbit/s 1 ms; a hand-over takes less than that of a processor.

Expected: hand-off is even with the better proxy at 256 kB at the latest, at 2 MB it gives at least 1.8 times as much,
and no less than 97 % of what clients get directly. The paper gains from 2 MB on.

wrk asks for objects of one size, by kept connections, half of them for each back end's; curl takes times, with a new
connection each. `startup_us`: from a client's connect() to its answer's first byte. `teardown_us`: how much longer it
takes until the next request of a kept connection is answered, which the front relays, if the one before was handed over
and not relayed. `next_us`: until it is answered by the other back end. `rule_us`: from asking the switch for a rule to
having it. `rewrite_ns_60`, `_1514`: the switch's program for a frame of so many bytes; `xdp_`: that for drivers, with
the next hop. `even_from_kb`: from this size of objects on hand-off gives at least what the better proxy does.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from experiments.handoff.contest import CONTENDERS, DIRECT, HANDOFF, PROXIES, SMALL, Contest, contest, is_here
from experiments.handoff.network import BACK_ENDS, SERVICE
from experiments.handoff.running import RELAYED
from experiments.plots import colours_of, curve, name_axes
from experiments.study.blueprint import Ground
from experiments.study.experiment import Count, Experiment, Sizes
from experiments.study.metrics import RATIO, Metric, metrics_of, ratio
from experiments.study.readings import Point, Reading, Readings, Repeated, Verdict, at_least
from experiments.testbed.topology import Profile, Topology
from tributary import cargo
from tributary.settings.units import PositiveRate, Size

_EVEN, _LARGE = 256_000, 2_000_000
_GAIN = 1.8
_NEARLY = 97
"""Percent of what clients get directly."""
_ROUNDS = 2
"""Objects that each connection gets at least, however large they are."""
_TIMES, _COSTS = "times", "costs"
_NOBODY = "10.7.0.9:9"
"""A client that is none."""


class HandoffSizes(Experiment):
    """``rate`` of a link; ``connections`` by each back end, for ``seconds`` at each of the ``sizes``, or for longer.
    ``count``: of transfers one after the other, of which a time is the median.
    """

    paper = "Prism, throughput by object size"
    claim = "A hand-off gains over a proxy from objects of 2 MB on."
    expected = "Even at 256 kB; at least 1.8 times a proxy at 2 MB, and 97 % of what there is directly."
    quick = {"repeat": 1, "sizes": "64kB,2MB", "seconds": 1, "count": 10}
    in_turn = True

    rate: PositiveRate = PositiveRate(10**9)
    sizes: Sizes = tuple(Size(kilobytes * 1000) for kilobytes in (16, 64, 128, 256, 512, 1000, 2000, 8000, 64_000))
    connections: Count = 8
    seconds: float = Field(default=5.0, ge=1, description="a number of seconds, at least 1")
    count: Count = 100

    def points(self, _topology: Topology) -> list[Point]:
        loads = [{"by": by, "size": str(size)} for size in self._sizes() for by in CONTENDERS]
        return [*loads, *({"by": by, "what": _TIMES} for by in CONTENDERS), {"by": HANDOFF, "what": _COSTS}]

    def blueprint(self, _profile: Profile, _point: Point) -> Ground[Contest]:
        return contest(self.rate, self._sizes())

    def measure(self, built: Contest, point: Point, repetition: int) -> Reading:
        """Nothing of who is not here. Raises CommandError (exit 1) if a request fails."""
        by = point["by"]
        if not is_here(by):
            values: Mapping[str, float] = {}
        elif "size" in point:
            size = int(point["size"])
            values = built.load(by, size, self.connections, self._seconds(size))
        else:
            values = _times(built, by, self.count) if point["what"] == _TIMES else _costs(built, self.count)
        return Reading(point, repetition, values)

    def judge(self, _topology: Topology, readings: Readings) -> Iterator[Verdict]:
        for size in sorted(each.amount for each in self.sizes):
            where, these = f"at {size // 1000} kB", readings.at(size=str(size))
            for by in PROXIES if size >= _EVEN else ():
                if (gain := _over(these, by)).numbers:
                    least = _GAIN if size >= _LARGE else 1
                    yield at_least(f"clients get more by hand-off than by {by} {where}", gain, least, "x")
            if size >= _LARGE and (share := _over(these, DIRECT)).numbers:
                yield at_least(f"and nearly what they get directly {where}", share * 100, _NEARLY, "%")

    def metrics(self, readings: Readings) -> list[Metric]:
        """Values of ours have plain names, those of others their names before them; ratios are at 2 MB."""
        return [*_throughput(readings), *_at_2mb(readings), *_latencies(readings)]

    def draw(self, figure: Figure, _topology: Topology, readings: Readings) -> None:
        throughput, cost = figure.subplots(1, 2)
        over = readings.over("size", lambda size: int(size) / 1000)
        draw_contenders(throughput, "mbps", over)
        draw_contenders(cost, "front_cpu_ms_per_gb", over, [by for by in CONTENDERS if by != DIRECT])
        cost.set_yscale("log")
        for axes in (throughput, cost):
            axes.set_xscale("log")
        name_axes(throughput, "kB of an object", "Mbit/s that clients get", "y", legend=True)
        name_axes(cost, "kB of an object", "ms of the front's processor, a GB", "y")

    def _sizes(self) -> list[int]:
        """In bytes, and that which times are of."""
        return sorted({each.amount for each in self.sizes} | {_LARGE})

    def _seconds(self, size: int) -> float:
        """As the options say, or as long as a proxy's link takes for enough objects from both back ends."""
        bits = 8 * size * _ROUNDS * self.connections * len(BACK_ENDS)
        return max(self.seconds, bits / self.rate.amount)


def _times(built: Contest, by: str, count: int) -> dict[str, float]:
    small, large = (built.url(by, "a", size) for size in (SMALL, _LARGE))
    return {
        "startup_us": built.microseconds([small], "time_starttransfer", count),
        "latency_2mb_us": built.microseconds([large], "time_total", count),
    }


def _costs(built: Contest, count: int) -> dict[str, float]:
    a, b = (built.url(HANDOFF, each, SMALL) for each in ("a", "b"))
    # Each is another back end's than the one before, so the front connects to it anew.
    before, relayed = (f"http://{SERVICE}/{RELAYED}/{each}/{SMALL}" for each in ("a", "b"))
    after = {
        name: built.microseconds(urls, "time_starttransfer", count)
        for name, urls in {"handed": [a, relayed], "relayed": [before, relayed], "next": [a, b]}.items()
    }
    network = built.network
    switch = ("--switch", network.switch_for_fronts, "--identity", str(network.identity("front")))
    rule = ("--service", SERVICE, "--back-end", network.hand_off("a"), "--client", _NOBODY)
    (costs,) = cargo.build("switch-costs")
    # The kernel names next hops to drivers' programs for devices that forward.
    network.nodes["front"].sysctl(net__ipv4__conf__eth0__forwarding=1)
    told = network.nodes["front"].told(str(costs), *switch, *rule, "--device", "eth0")
    return {"teardown_us": after["handed"] - after["relayed"], "next_us": after["next"], **told}


def _over(readings: Readings, by: str) -> Repeated:
    """How many times what somebody else gives in the same repetition hand-off does."""
    return readings.at(by=HANDOFF).repeated("mbps") / readings.at(by=by).repeated("mbps")


def _throughput(readings: Readings) -> Iterator[Metric]:
    by_size = readings.over("size", int)
    for size, these in by_size.items():
        for by in CONTENDERS:
            yield Metric(f"{by}, {size // 1000} kB", these.at(by=by).values("mbps"), "Mbit/s")
    even = even_from({size: _gains(these) for size, these in by_size.items()})
    yield Metric("even_from_kb", [] if even is None else [even / 1000])


def _gains(readings: Readings) -> list[float]:
    """Of ours over each proxy that is here."""
    found = [[*_over(readings, by).numbers.values()] for by in PROXIES]
    return [median(each) for each in found if each]


def even_from(gains: Mapping[float, list[float]]) -> float | None:
    """The least size from which on all ``gains`` are at least 1; None if there is none, or no proxy. Pure."""
    even = takewhile(lambda size: gains[size] and min(gains[size]) >= 1, sorted(gains, reverse=True))
    return min(even, default=None)


def _at_2mb(readings: Readings) -> Iterator[Metric]:
    large = {by: readings.at(by=by, size=str(_LARGE)) for by in CONTENDERS}
    over = {by: [*_over(readings.at(size=str(_LARGE)), by).numbers.values()] for by in (DIRECT, *PROXIES)}
    yield from (Metric(f"throughput_2mb_vs_{by}", times, RATIO) for by, times in over.items())
    if proxies := [by for by in PROXIES if over[by]]:
        best = max(proxies, key=lambda by: median(large[by].values("mbps")))
        yield Metric("throughput_2mb_vs_proxy", over[best], RATIO)
        work = {by: large[by].repeated("front_cpu_ms_per_gb") for by in (HANDOFF, *proxies)}
        savings = [ratio(by, work[by], work[HANDOFF]) for by in proxies]
        yield Metric("front_cpu_saving_2mb", min((each.numbers for each in savings), key=median), RATIO)


def _latencies(readings: Readings) -> Iterator[Metric]:
    times = {by: readings.at(by=by, what=_TIMES) for by in CONTENDERS}
    for by, these in times.items():
        yield from metrics_of(these, ("startup_us", "latency_2mb_us"), "" if by == HANDOFF else f"{by}_")
    direct, ours = (times[by].repeated("latency_2mb_us") for by in (DIRECT, HANDOFF))
    yield ratio("latency_2mb_vs_direct", direct, ours)
    rewriting = [f"{who}rewrite_ns_{size}" for who in ("", "xdp_") for size in (60, 1514)]
    yield from metrics_of(readings.at(what=_COSTS), ("teardown_us", "next_us", "rule_us", *rewriting))


def draw_contenders(
    axes: Axes, value: str, over: Mapping[float, Readings], contenders: Sequence[str] = CONTENDERS
) -> None:
    """A ``value`` of each that is here over a quantity."""
    for by, colour in colours_of(CONTENDERS).items():
        found = {place: these.at(by=by) for place, these in over.items() if these.at(by=by).values(value)}
        if found and by in contenders:
            # What is directly there is what hand-off should give: both lines are to be seen where they are one.
            style = "--" if by == DIRECT else "-"
            curve(axes, found, value, by, color=colour, linestyle=style, markersize=3)
