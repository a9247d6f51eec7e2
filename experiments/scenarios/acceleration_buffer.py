"""A long download through one native converter, whose send buffer is a half to four times the client's receive buffer.

    client --- proxy --- server      100 Mbit/s, 100 ms in all, split evenly

The client's receive buffer may grow to ``receive``, what its half of the path needs; the proxy's send buffers may grow
to so many times that. Derived: Mbit/s from connect(2) to the last byte. A send buffer counts memory, of which a packet
takes more than is in it, and it holds what is on its way and not yet acknowledged beside what has still to go: a
receiver that offers a window can have it filled only by a sender that may keep more than that. Expected, as Miniproxy
has it: twice the receive buffer is enough, and half of it is not.
"""

from collections.abc import Sequence
from typing import Annotated

from matplotlib.figure import Figure
from pydantic import BeforeValidator, Field

from experiments.plots import line, name_axes
from experiments.scenarios.acceleration import Acceleration, AccelerationOptions, Segments, transfers
from experiments.scenarios.sweeps import numbers
from experiments.study.readings import Estimate, Point, Reading, Readings, Repeated, Verdict, at_least, at_most
from experiments.study.scenario import Options, Scenario
from experiments.testbed.chain import By, split
from experiments.testbed.profile import PROFILES
from experiments.testbed.topology import Profile, Topology
from tributary.settings.units import Size

_LEAST, _DEFAULT = 4096, 131_072  # bytes: tcp(7), tcp_rmem and tcp_wmem
_ENOUGH, _TOO_LITTLE = 2.0, 0.5


class BufferRatioOptions(Options):
    """``size``: of the download; ``receive``: the client's buffer; ``ratio``: of the proxy's send buffers to that."""

    size: Size = Size(30_000_000)
    receive: Size = Size(1_000_000)
    ratio: Annotated[
        tuple[float, ...],
        BeforeValidator(numbers(float)),
        Field(min_length=1, description="numbers with commas between them, such as '0.5,2'"),
    ] = (0.5, 1.0, 1.5, 2.0, 4.0)


def _points(options: BufferRatioOptions, _topology: Topology) -> list[Point]:
    return [{"ratio": f"{ratio:g}"} for ratio in options.ratio]


def _ground(_options: BufferRatioOptions, profile: Profile, _point: Point) -> Segments:
    return Segments(split(Topology.of(profile).links[0], 2))


def _measure(built: Acceleration, options: BufferRatioOptions, point: Point, repetition: int) -> Reading:
    """``rate_mbps``."""
    chain = built.chain
    chain.client.sysctl(net__ipv4__tcp_rmem=_growing_to(options.receive.amount))
    for proxy in chain.proxies:
        proxy.sysctl(net__ipv4__tcp_wmem=_growing_to(round(float(point["ratio"]) * options.receive.amount)))
    taken = transfers(chain, By.EARLY, AccelerationOptions(size=(options.size,), count=1))
    milliseconds = taken[f"whole_ms_{options.size.amount // 1000}"]
    return Reading(point, repetition, {"rate_mbps": 0.008 * options.size.amount / milliseconds}, {})


def _growing_to(most: int) -> str:
    return f"{_LEAST} {min(_DEFAULT, most)} {most}"


def _judge(_options: BufferRatioOptions, _topology: Topology, readings: Readings) -> Sequence[Verdict]:
    rates = {ratio: readings.at(ratio=f"{ratio:g}").repeated("rate_mbps") for ratio in _ratios(readings)}
    most = Repeated.of(lambda *each: max(each), *rates.values())
    enough = [rate for ratio, rate in rates.items() if ratio >= _ENOUGH]
    verdicts = []
    if enough:
        claim = "twice the receive buffer reaches 97 % of the most"
        reached = _percent(Repeated.of(lambda *each: min(each), *enough), most)
        verdicts.append(at_least(claim, reached, 97, "%"))
    if _TOO_LITTLE in rates:
        claim = "half of it does not reach 80 %"
        verdicts.append(at_most(claim, _percent(rates[_TOO_LITTLE], most), 80, "%"))
    return verdicts


def _percent(rate: Repeated, most: Repeated) -> Estimate:
    return Repeated.of(lambda own, best: 100 * own / best, rate, most).estimate


def _ratios(readings: Readings) -> list[float]:
    return sorted({float(reading.point["ratio"]) for reading in readings})


def _draw(figure: Figure, _topology: Topology, readings: Readings) -> None:
    axes = figure.subplots()
    rates = {ratio: readings.at(ratio=f"{ratio:g}").estimate("rate_mbps") for ratio in _ratios(readings)}
    line(axes, rates, color="black")
    name_axes(axes, "send buffer, in receive buffers", "Mbit/s", "y")


SCENARIO = Scenario(
    name="acceleration-buffer",
    paper="Miniproxy",
    claim="A proxy's send buffer should be twice the receive buffer.",
    expected="Half the receive buffer slows the download down, more than twice does not help.",
    profile=PROFILES / "long-path.toml",
    options=BufferRatioOptions,
    quick={"repeat": 1, "ratio": "0.5,2"},
    points=_points,
    blueprint=_ground,
    measure=_measure,
    judge=_judge,
    draw=_draw,
    about=__doc__,
)
