"""A home router and its gateway: what tunnels give a device beside the plain leg, and what one tunnel costs.

    device -- router ==dsl, lte== internet (address translation) -- gateway, server

`bonded_vs_tunnels`: a device's download by both links, beside the sum of what each tunnel carries by itself.
`wireguard_vs_plain`: that download beside the same by the plain leg, in which MPTCP's option passes. `udp_gap_ms`,
`tcp_gap_ms`: the longest time without an answer to a call and without a byte of a download, when the better link
loses its carrier; `silent_` before them: when it falls silent, and probes have to find out. `revoke_s`: how long a
call still passes behind `gateway revoke`.

`link` and `tunnel`: a connection of the router's own to the gateway's converter by a plain cable that stands for a
link, and by the tunnel over it, with nothing that shapes: `mbps`, and processor seconds for each gigabyte, of the
programs at both ends (the gateway's converter is among them) and of the whole machine, client and server included.
"""

from collections.abc import Mapping
from statistics import median

from pydantic import Field

from experiments.home import events
from experiments.home.household import PLAIN, WIREGUARD, Household, HouseholdBlueprint
from experiments.home.traffic import alone, costing, mbps, one_way
from experiments.study.benchmark import benchmark
from experiments.study.figures import Figures, Series, pairs, ratios
from experiments.study.readings import Point, Reading, Readings
from experiments.study.scenario import Options, Repeat
from experiments.testbed.profile import PROFILES
from experiments.testbed.topology import Profile

_BONDED, _REVOKED, _LINK, _TUNNEL = "bonded", "revoked", "link", "tunnel"
_MANY = 2
_UNSHAPED = {_LINK: PLAIN, _TUNNEL: WIREGUARD}
"""What is measured on plain cables, by the leg that has it."""


class HomeOptions(Options):
    """``seconds`` of each download."""

    repeat: Repeat = 5
    seconds: float = Field(default=10.0, ge=3, description="a number of seconds, at least 3")


def _points(_options: HomeOptions) -> list[Point]:
    tunnels = (_BONDED, events.CARRIER, events.SILENCE, _REVOKED)
    return [
        {"by": PLAIN, "what": _BONDED},
        *({"by": WIREGUARD, "what": what} for what in tunnels),
        *({"by": leg, "what": what} for what, leg in _UNSHAPED.items()),
    ]


def _blueprint(_options: HomeOptions, profile: Profile, point: Point) -> HouseholdBlueprint:
    return HouseholdBlueprint(profile, point["by"], _MANY, shaped=point["what"] not in _UNSHAPED)


def _measure(built: Household, options: HomeOptions, point: Point, repetition: int) -> Reading:
    """Raises CommandError: exit 1 if a byte of a download is wrong, 71 if one breaks off."""
    what = point["what"]
    if what == _BONDED:
        values = _bonded(built, options.seconds)
    elif what in _UNSHAPED:
        values = _unshaped(built, options.seconds)
    elif what == _REVOKED:
        values = {"revoke_s": events.revoke(built)}
    else:
        noticed = events.cut(built, built.network.links[0], what)
        values = {"udp_gap_ms": 1000 * noticed.call_gap, "tcp_gap_ms": 1000 * noticed.download_gap}
    return Reading(point, repetition, values, {})


def _bonded(home: Household, seconds: float) -> dict[str, float]:
    return {"sum_mbps": sum(alone(home, seconds).values()), "mbps": mbps(home, seconds)}


def _unshaped(home: Household, seconds: float) -> dict[str, float]:
    """By the first way alone."""
    with costing(home) as cost, one_way(home, home.network.links[0], seconds) as download:
        told, spent = download.end(), cost()
    return {"mbps": told["bits_per_second"] / 1e6, **spent.per_gigabyte(told["bytes"])}


def figures(readings: Readings) -> Figures:
    """Values of what is cut have its name before them if it falls silent; those of one way alone always."""
    tunnels = readings.at(by=WIREGUARD, what=_BONDED)
    found = ratios("mbps", {"wireguard_vs_plain": (tunnels, readings.at(by=PLAIN, what=_BONDED))})
    if shares := [reading.values["mbps"] / reading.values["sum_mbps"] for reading in tunnels]:
        found["bonded_vs_tunnels"] = median(shares)
    by_way = {what: readings.at(what=what) for what in _UNSHAPED}
    if both := pairs(by_way[_TUNNEL], by_way[_LINK], "mbps"):
        found["tunnel_vs_link"] = median(tunnel / link for tunnel, link in both)
    return Figures(_series(readings), found, _values(readings, by_way))


def _series(readings: Readings) -> list[Series]:
    rates = {f"{by}, {what}": readings.at(by=by, what=what) for by, what in _rated()}
    return [Series(name, "Mbit/s", each.values("mbps")) for name, each in rates.items() if each.values("mbps")]


def _rated() -> list[tuple[str, str]]:
    return [(PLAIN, _BONDED), (WIREGUARD, _BONDED), *((leg, what) for what, leg in _UNSHAPED.items())]


def _values(readings: Readings, by_way: Mapping[str, Readings]) -> dict[str, float]:
    named = {
        **{name: (name, readings.at(what=events.CARRIER)) for name in ("udp_gap_ms", "tcp_gap_ms")},
        **{f"silent_{name}": (name, readings.at(what=events.SILENCE)) for name in ("udp_gap_ms", "tcp_gap_ms")},
        "revoke_s": ("revoke_s", readings.at(what=_REVOKED)),
        **{
            f"{what}_{name}": (name, each)
            for what, each in by_way.items()
            for name in ("mbps", "router_cpu_s_per_gb", "gateway_cpu_s_per_gb", "machine_cpu_s_per_gb")
        },
    }
    return {name: median(values) for name, (value, those) in named.items() if (values := those.values(value))}


SCENARIO = benchmark(
    name="home",
    question="Do tunnels give a home all of its links, what do they cost, and how soon is a call back after a cut?",
    about=__doc__,
    options=HomeOptions,
    quick={"repeat": 1, "seconds": 5.0},
    points=_points,
    blueprint=_blueprint,
    measure=_measure,
    figures=figures,
    profile=PROFILES / "home.toml",
)
