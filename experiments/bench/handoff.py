"""Request hand-off beside proxies in the front's place, and back ends that are asked directly.

    client ==2 links== switch ==1 link each== front or proxy, back end a, back end b

The links have one rate: a proxy's own is the bottleneck of all that passes it (experiments/handoff/contest.py). wrk
asks for objects of one size, by kept connections, half of them for each back end's; curl takes times, with a new
connection each.

`startup_us`: from a client's connect() to its answer's first byte. `teardown_us`: how much longer it takes until the
next request of a kept connection is answered, which the front relays, if the one before was handed over and not
relayed. `next_us`: until it is answered by the other back end. `rule_us`: from asking the switch for a rule to having
it. `rewrite_ns_60`, `_1514`: the switch's program for a frame of so many bytes; `xdp_`: that for drivers, with the
next hop. `even_from_kb`: from this size of objects on hand-off gives at least what the better proxy does.
"""

import json
from collections.abc import Mapping
from statistics import median

from pydantic import Field

from experiments.handoff.contest import CONTENDERS, DIRECT, HANDOFF, RELAYED, SMALL, Contest, Contesting, is_here
from experiments.handoff.network import SERVICE
from experiments.handoff.proxies import PROXIES
from experiments.scenarios.sweeps import Sizes
from experiments.study.benchmark import benchmark
from experiments.study.figures import Figures, Series, pairs, ratios
from experiments.study.readings import Point, Reading, Readings
from experiments.study.scenario import Options, Repeat
from experiments.testbed import native
from tributary.settings.units import PositiveRate, Size

_LARGE = 2_000_000
"""Bytes of the objects that the ratios are of."""
_TIMES, _COSTS = "times", "costs"
_NOBODY = "10.7.0.9:9"
"""A client that is none."""
_UNITS = {"mbps": "Mbit/s", "startup_us": "us", "large_us": "us"}


class HandoffOptions(Options):
    """``rate`` of a link. ``connections`` by each back end, for ``seconds`` at each of the ``sizes``. ``count``: of
    transfers one after the other, of which a time is the median.
    """

    repeat: Repeat = 5
    rate: PositiveRate = Field(default=PositiveRate(10**9), description="a rate, such as '1gbit'")
    sizes: Sizes = tuple(Size(kilobytes * 1000) for kilobytes in (16, 64, 128, 256, 512, 1000, 2000, 8000))
    connections: int = Field(default=8, ge=1, description="a whole number of connections, at least 1")
    seconds: float = Field(default=3.0, ge=1, description="a number of seconds, at least 1")
    count: int = Field(default=100, ge=1, description="a whole number of transfers, at least 1")


def _points(options: HandoffOptions) -> list[Point]:
    sizes = sorted({each.amount for each in options.sizes} | {_LARGE})
    loads = [{"by": by, "size": str(size)} for size in sizes for by in CONTENDERS]
    return [*loads, *({"by": by, "what": _TIMES} for by in CONTENDERS), {"by": HANDOFF, "what": _COSTS}]


def _measure(built: Contest, options: HandoffOptions, point: Point, repetition: int) -> Reading:
    """Nothing of who is not here. Raises CommandError (exit 1) if a request fails."""
    by = point["by"]
    if not is_here(by):
        values: Mapping[str, float] = {}
    elif "size" in point:
        values = built.load(by, int(point["size"]), options.connections, options.seconds)
    else:
        values = _times(built, by, options.count) if point["what"] == _TIMES else _costs(built, options.count)
    return Reading(point, repetition, values, {})


def _times(built: Contest, by: str, count: int) -> dict[str, float]:
    small, large = (built.url(by, "a", size) for size in (SMALL, _LARGE))
    return {
        "startup_us": built.microseconds([small], "time_starttransfer", count),
        "large_us": built.microseconds([large], "time_total", count),
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
    # The kernel names next hops to drivers' programs for devices that forward.
    network.nodes["front"].sysctl(net__ipv4__conf__eth0__forwarding=1)
    told = json.loads(network.nodes["front"].run(str(native.switch_costs()), *switch, *rule, "--device", "eth0"))
    return {"teardown_us": after["handed"] - after["relayed"], "next_us": after["next"], **told}


def figures(readings: Readings) -> Figures:
    """Values of ours have plain names, those of others their names before them; ratios are at 2 MB."""
    large = {by: readings.at(by=by, size=str(_LARGE)) for by in CONTENDERS}
    times = {by: readings.at(by=by, what=_TIMES) for by in CONTENDERS}
    proxies = [by for by in PROXIES if large[by].values("mbps")]
    compared = {f"throughput_2mb_vs_{by}": (large[HANDOFF], large[by]) for by in (DIRECT, *proxies)}
    found = ratios("mbps", compared)
    if proxies:
        best = max(proxies, key=lambda by: median(large[by].values("mbps")))
        found["throughput_2mb_vs_proxy"] = found[f"throughput_2mb_vs_{best}"]
        found["front_cpu_saving_2mb"] = min(
            median(theirs / ours for ours, theirs in pairs(large[HANDOFF], large[by], "front_cpu_ms_per_gb"))
            for by in proxies
        )
    if both := pairs(times[HANDOFF], times[DIRECT], "large_us"):
        found["latency_2mb_vs_direct"] = median(theirs / ours for ours, theirs in both)
    return Figures(_series(readings), found, _values(readings, times))


def _series(readings: Readings) -> list[Series]:
    named = [
        (f"{by}, {int(point['size']) // 1000} kB" if "size" in point else f"{by}, {value}", value, point)
        for point in {tuple(reading.point.items()): reading.point for reading in readings}.values()
        for by in (point["by"],)
        for value in _UNITS
    ]
    all_of_them = [Series(name, _UNITS[value], readings.at(**point).values(value)) for name, value, point in named]
    return [each for each in all_of_them if each.numbers]


def _values(readings: Readings, times: Mapping[str, Readings]) -> dict[str, float]:
    found = {
        f"{'' if by == HANDOFF else f'{by}_'}{called}": median(values)
        for by in CONTENDERS
        for value, called in {"startup_us": "startup_us", "large_us": "latency_2mb_us"}.items()
        if (values := times[by].values(value))
    }
    costs = readings.at(what=_COSTS)
    rewriting = [f"{who}rewrite_ns_{size}" for who in ("", "xdp_") for size in (60, 1514)]
    wanted = ("teardown_us", "next_us", "rule_us", *rewriting)
    found |= {name: median(values) for name in wanted if (values := costs.values(name))}
    even = even_from({size: _gains(readings.at(size=size)) for size in _sizes(readings)})
    return found if even is None else found | {"even_from_kb": even / 1000}


def _sizes(readings: Readings) -> list[str]:
    return sorted({reading.point["size"] for reading in readings if "size" in reading.point}, key=int)


def _gains(readings: Readings) -> list[float]:
    """Of ours over each proxy."""
    ours = readings.at(by=HANDOFF)
    return list(ratios("mbps", {by: (ours, readings.at(by=by)) for by in PROXIES}).values())


def even_from(gains: Mapping[str, list[float]]) -> int | None:
    """The least size from which on all ``gains`` are at least 1; None if there is none, or no proxy. Pure."""
    found = None
    for size in sorted(map(int, gains), reverse=True):
        these = gains[str(size)]
        if not these or min(these) < 1:
            break
        found = size
    return found


SCENARIO = benchmark(
    name="handoff",
    question="What does a request hand-off gain over a proxy, what does it cost, and from what size of objects on?",
    about=__doc__,
    options=HandoffOptions,
    quick={"repeat": 1, "seconds": 1, "count": 10, "sizes": "64kB,256kB,2MB"},
    points=_points,
    blueprint=lambda options, _profile, _point: Contesting(
        options.rate, tuple(sorted({each.amount for each in options.sizes} | {_LARGE}))
    ),
    measure=_measure,
    figures=figures,
    in_turn=True,
)
