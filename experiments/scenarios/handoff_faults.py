"""What a client sees of an answer of some seconds when a part of the hand-off fails in the midst of it.

    client -- switch -- front, back ends a and b        one rate on all links; the object is at a

    back-end-killed     its process is dead             switch-restarted   killed, and there again at once
    back-end-cut-off    its cable is cut                front-restarted    killed, and there again at once
    client-gone         the client's cable is cut

Expected: a client whose back end is lost is reset, within a second if it is killed: its kernel does it at once; within
six if it is cut off: the front misses it after 0.7 s without a word, and waits 5 s for it to be back. Switch and front
are not needed for bytes that were asked for: the answer comes whole, with a pause until the switch has its rules again.
A client that is gone is given up by its back end after `idle` seconds, which are 300 unless somebody says another
number (--idle). No byte is another one's, whatever happens.
"""

import sys
import time
from collections.abc import Iterator

from matplotlib.figure import Figure
from pydantic import Field

from experiments.handoff.contest import wait_until_handed_over
from experiments.handoff.faults import FAILING, FAULTS, OBJECT, Failing, Served
from experiments.handoff.network import SERVICE
from experiments.plots import tidy
from experiments.study.readings import Point, Reading, Readings, Verdict, worst
from experiments.study.scenario import Options, Scenario
from experiments.testbed.profile import DEFAULT
from experiments.testbed.topology import Profile, Topology
from tributary.settings.errors import CommandError, Exit
from tributary.settings.units import PositiveRate, Size

_LOST = {"back-end-killed": 1.0, "back-end-cut-off": 6.0}
"""Seconds within which a client is reset."""
_STAYS, _GONE = ("switch-restarted", "front-restarted"), "client-gone"
_PAUSE = 5.0
"""Seconds until a switch is there again, and a packet that was lost meanwhile is sent once more."""
_LATER = 5.0
"""Seconds by which a client may be given up too late."""
_LOOK = 0.05
_LONGEST = 120.0


class FaultOptions(Options):
    """``rate`` of a link, ``size`` of the object, seconds ``before`` the fault. Back ends wait for ``idle`` seconds."""

    rate: PositiveRate = Field(default=PositiveRate(200 * 10**6), description="a rate, such as '200mbit'")
    size: Size = Field(default=Size(150_000_000), description="a size, such as '150MB'")
    before: float = Field(default=1.0, gt=0, description="a number of seconds above 0")
    idle: int = Field(default=30, ge=2, le=int(_LONGEST - _LATER), description="a whole number of seconds, 2 to 115")


def _points(_options: FaultOptions, _topology: Topology) -> list[Point]:
    return [{"fault": fault} for fault in FAULTS]


def _blueprint(options: FaultOptions, _profile: Profile, _point: Point) -> Failing:
    return Failing(options.rate, options.size.amount, options.idle)


def _measure(running: Served, options: FaultOptions, point: Point, repetition: int) -> Reading:
    """Raises CommandError (exit 71) if the hand-off is not whole again after the fault before."""
    network, fault = running.network, point["fault"]
    wait_until_handed_over(network)
    address, _, port = SERVICE.partition(":")
    file = network.objects(FAILING) / FAILING / OBJECT
    probe = (sys.executable, "-m", "experiments.probes.answer", address, port, f"/{FAILING}/{OBJECT}", str(file))
    with network.nodes["client"].start("answer", probe) as client:
        client.wait_until_ready()
        time.sleep(options.before)
        begun = time.time()
        with FAULTS[fault](running):
            if fault == _GONE:
                return Reading(point, repetition, {"given_up_s": _given_up(running), "wrong": 0.0}, {})
            if client.popen.wait(_LONGEST):
                raise CommandError(Exit.SYSTEM, f"the client failed: {client.output()}")
    return Reading(point, repetition, told(client.report(), begun), {})


def _given_up(running: Served) -> float:
    """Seconds until the back end has no connection any more, or the longest that is waited."""
    begun = time.monotonic()
    while running.is_at_back_end() and time.monotonic() - begun < _LONGEST:
        time.sleep(_LOOK)
    return time.monotonic() - begun


def told(seen: dict[str, object], begun: float) -> dict[str, float]:
    """What a client saw, by a fault that began then (Unix time). Pure."""
    values = {name: float(seen["outcome"] == name) for name in ("whole", "reset")}
    return values | {
        "seconds": float(str(seen["at"])) - begun,
        "pause_s": float(str(seen["pause"])),
        "wrong": float(bool(seen["wrong"])),
    }


def _judge(options: FaultOptions, _topology: Topology, readings: Readings) -> list[Verdict]:
    given_up = options.idle + _LATER
    return [verdict for fault in FAULTS for verdict in _verdicts(fault, readings.at(fault=fault), given_up)]


def _verdicts(fault: str, readings: Readings, given_up: float) -> Iterator[Verdict]:
    def most(claim: str, values: list[float], bound: float, unit: str) -> Verdict:
        return worst(f"{claim} ({fault})", values, bound, unit)

    def none_but(outcome: str) -> list[float]:
        return [1 - value for value in readings.values(outcome)]

    yield most("no byte is wrong", readings.values("wrong"), 0, "answers")
    if fault in _LOST:
        yield most("the client is reset", none_but("reset"), 0, "that were not")
        yield most("and soon", readings.values("seconds"), _LOST[fault], "s")
    elif fault in _STAYS:
        yield most("the answer is whole", none_but("whole"), 0, "that were not")
        yield most("without a long pause", readings.values("pause_s"), _PAUSE, "s")
    else:
        yield most("the back end gives it up", readings.values("given_up_s"), given_up, "s")


def _draw(figure: Figure, _topology: Topology, readings: Readings) -> None:
    axes = figure.subplots()
    of = {"given_up_s": (_GONE,), "seconds": tuple(_LOST), "pause_s": _STAYS}
    names = {fault: value for value, faults in of.items() for fault in faults}
    for row, fault in enumerate(FAULTS):
        values = readings.at(fault=fault).values(names[fault])
        axes.scatter(values, [row] * len(values), s=12, color="#0072B2")
    axes.set_yticks(range(len(FAULTS)), [f"{fault}\n{_MEANING[names[fault]]}" for fault in FAULTS])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("seconds")
    tidy(axes, "x")


_MEANING = {"given_up_s": "until it is given up", "seconds": "until the reset", "pause_s": "longest pause"}

SCENARIO = Scenario(
    name="handoff-faults",
    paper="new",
    claim="A client whose back end is lost is reset within 6 s; other faults cost a pause, and no byte is wrong.",
    expected="As claimed: reset at once or after 5.7 s, whole answers without switch or front, given up after `idle`.",
    profile=DEFAULT,
    options=FaultOptions,
    quick={"repeat": 1},
    points=_points,
    blueprint=_blueprint,
    measure=_measure,
    judge=_judge,
    draw=_draw,
    about=__doc__,
    any_links=False,
    in_turn=True,
)
