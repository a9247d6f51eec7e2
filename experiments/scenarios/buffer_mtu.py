"""The receive buffer that MPTCP needs, by the largest packet that the links take.

    client ==wired====== gateway ---- server   44 Mbit/s, 8 ms;  every interface on the way has the same MTU,
           ==wireless===                       20 Mbit/s, 15 ms  and a queue of as many bytes

A receive buffer counts memory, and a packet takes about the same whatever is in it (skb->truesize): where packets carry
less, as much payload takes more. Derived: throughput behind slow start by MTU and by the most that the client's buffer
may take; the knee of each MTU, the smallest buffer that reaches 95 % of its best. Expected: 0.48 MB at 1500 bytes (see
the scenario `buffer`), and at smaller ones no more than in proportion to what a packet carries: 1.5 times that at 1000
bytes, as the paper advises ("a proportionate TCP memory extension").
"""

from typing import Annotated

from matplotlib.figure import Figure
from pydantic import BeforeValidator, Field

from experiments.plots import line, name_axes, theory
from experiments.scenarios.buffer import knee, needed
from experiments.scenarios.downloads import values_of
from experiments.scenarios.mtu import with_queues_of_as_many_bytes
from experiments.scenarios.sweeps import Sizes, TimedOptions, bound_what_is_received, numbers, timed
from experiments.study.blueprint import StandingTestbed, TestbedBlueprint
from experiments.study.readings import Point, Reading, Readings, Repeated, Verdict, no_less_than, no_more_than
from experiments.study.scenario import Scenario
from experiments.testbed.profile import PROFILES
from experiments.testbed.topology import Profile, Topology
from tributary.settings.units import Size

_BY = "native"
_FULL = 1500
_HEADERS = 80  # bytes of a packet that are no payload: IPv4, TCP with timestamps, DSS (RFC 8684 section 3.3)
_ROOM = 1.5  # times the proportion: the sizes tried are a step of 1.4 apart


class BufferMtuOptions(TimedOptions):
    """``mtu``: sizes of packets to try, in bytes; ``buffer``: the most that the client's receive buffer may take."""

    mtu: Annotated[
        tuple[Annotated[int, Field(ge=576, le=9000)], ...],
        BeforeValidator(numbers(int)),
        Field(min_length=1, description="numbers from 576 to 9000 with commas between them, such as '1500,1000'"),
    ] = (1500, 1280, 1000, 576)
    buffer: Sizes = tuple(Size(1000 * kilobytes) for kilobytes in (240, 340, 480, 680, 960, 1360, 1920, 2700))


def _points(options: BufferMtuOptions, topology: Topology) -> list[Point]:
    first = topology.links[0].name
    return [
        {"mtu": str(mtu), "buffer": str(size), "by": _BY, "link": first, "family": "ipv4"}
        for mtu in options.mtu
        for size in options.buffer
    ]


def _ground(_options: BufferMtuOptions, profile: Profile, point: Point) -> TestbedBlueprint:
    return TestbedBlueprint(with_queues_of_as_many_bytes(profile, int(point["mtu"])))


def _measure(built: StandingTestbed, options: BufferMtuOptions, point: Point, repetition: int) -> Reading:
    built.testbed.set_mtu(int(point["mtu"]))
    bound_what_is_received(built.testbed, Size.parse(point["buffer"]))
    download = timed(built, options, point, repetition)
    return Reading(point, repetition, values_of(download, options.warm_up), download.series(), sending=download.sending)


def _proportion(mtu: int) -> float:
    """How many times the packets that as much payload takes, beside full ones."""
    return (_FULL - _HEADERS) / (mtu - _HEADERS)


def knees(readings: Readings) -> dict[int, Repeated]:
    """In MB, by MTU."""
    sizes = sorted({Size.parse(reading.point["buffer"]) for reading in readings}, key=lambda size: size.amount)
    return {
        mtu: knee({size: readings.at(mtu=str(mtu), buffer=str(size)).repeated("steady_mbps") for size in sizes})
        for mtu in sorted({int(reading.point["mtu"]) for reading in readings})
    }


def _judge(_options: BufferMtuOptions, _topology: Topology, readings: Readings) -> list[Verdict]:
    found = knees(readings)
    if _FULL not in found:
        return []
    verdicts = []
    for mtu in (each for each in found if each < _FULL):
        claim = f"packets of {mtu} bytes need no smaller buffer than those of 1500"
        verdicts.append(no_less_than(claim, found[mtu], found[_FULL], "MB"))
        claim = f"for packets of {mtu} bytes a buffer in proportion to what they carry is enough"
        verdicts.append(no_more_than(claim, found[mtu], found[_FULL] * (_ROOM * _proportion(mtu)), "MB"))
    return verdicts


def _draw(figure: Figure, topology: Topology, readings: Readings) -> None:
    throughput, least = figure.subplots(1, 2)
    by_mtu = knees(readings)
    sizes = sorted({Size.parse(reading.point["buffer"]) for reading in readings}, key=lambda size: size.amount)
    throughput.set_xscale("log")
    for mtu in by_mtu:
        found = {each.amount / 1e6: readings.at(mtu=str(mtu), buffer=str(each)) for each in sizes}
        line(throughput, {size: these.estimate("steady_mbps") for size, these in found.items()}, f"{mtu} bytes")
    name_axes(throughput, "receive buffer, MB", "payload, Mbit/s", legend=True)
    line(least, {float(mtu): knee.estimate for mtu, knee in by_mtu.items()}, "measured", color="black")
    expected = {float(mtu): needed(topology) * _proportion(mtu) / 1e6 for mtu in by_mtu}
    theory(least, expected, "#999999", "0.48 MB in proportion")
    name_axes(least, "MTU, bytes", "smallest buffer with 95 % of the best, MB", legend=True)


SCENARIO = Scenario(
    name="buffer-mtu",
    paper="section 3.4",
    claim="With smaller packets TCP's memory should be extended in proportion.",
    expected="The smaller the packets, the larger the buffer that is needed, in proportion to what they carry at most.",
    profile=PROFILES / "buffer.toml",
    options=BufferMtuOptions,
    quick={"repeat": 1, "seconds": 3.0, "warm_up": 1.0, "mtu": "1500,1000", "buffer": "0.24MB,0.48MB,0.96MB,1.92MB"},
    points=_points,
    measure=_measure,
    judge=_judge,
    draw=_draw,
    about=__doc__,
    any_links=False,
    blueprint=_ground,
)
