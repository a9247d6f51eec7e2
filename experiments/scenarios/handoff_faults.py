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

import time
from collections.abc import Iterator

from matplotlib.figure import Figure
from pydantic import Field

from experiments.handoff.faults import FAILING, FAULTS, OBJECT, failing, is_at_back_end
from experiments.handoff.network import SERVICE
from experiments.handoff.running import Running, wait_until_handed_over
from experiments.plots import tidy
from experiments.study.blueprint import Ground
from experiments.study.experiment import Experiment, Seconds
from experiments.study.readings import Point, Reading, Readings, Verdict, worst
from experiments.testbed.node import python
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


class HandoffFaults(Experiment):
    """``rate`` of a link, ``size`` of the object, seconds ``before`` the fault. Back ends wait for ``idle`` seconds."""

    claim = "A client whose back end is lost is reset within 6 s; other faults cost a pause, and no byte is wrong."
    expected = "As claimed: reset at once or after 5.7 s, whole answers without switch or front, given up after `idle`."
    quick = {"repeat": 1, "size": "75MB", "idle": 10}
    in_turn = True
    at = [{"fault": fault} for fault in FAULTS]

    rate: PositiveRate = PositiveRate(200 * 10**6)
    size: Size = Size(150_000_000)
    before: Seconds = 1.0
    idle: int = Field(default=30, ge=2, le=int(_LONGEST - _LATER), description="a whole number of seconds, 2 to 115")

    def blueprint(self, _profile: Profile, _point: Point) -> Ground[Running]:
        return failing(self.rate, self.size.amount, self.idle)

    def measure(self, running: Running, point: Point, repetition: int) -> Reading:
        """Raises CommandError (exit 71) if the hand-off is not whole again after the fault before."""
        fault, network = point["fault"], running.network
        wait_until_handed_over(network)
        address, _, port = SERVICE.partition(":")
        file = network.objects(FAILING) / FAILING / OBJECT
        probe = python("experiments.probes.answer", address, port, f"/{FAILING}/{OBJECT}", str(file))
        with network.nodes["client"].start("answer", probe) as client:
            client.wait_until_ready()
            time.sleep(self.before)
            begun = time.time()
            with FAULTS[fault](running):
                if fault == _GONE:
                    return Reading(point, repetition, {"given_up_s": _given_up(running), "wrong": 0.0}, {})
                if client.popen.wait(_LONGEST):
                    raise CommandError(Exit.SYSTEM, f"the client failed: {client.output()}")
        return Reading(point, repetition, told(client.report(), begun), {})

    def judge(self, _topology: Topology, readings: Readings) -> Iterator[Verdict]:
        for fault in FAULTS:
            these = readings.at(fault=fault)
            yield worst(f"no byte is wrong ({fault})", these.values("wrong"), 0, "answers")
            if fault in _LOST:
                yield worst(f"the client is reset ({fault})", _others(these, "reset"), 0, "that were not")
                yield worst(f"and soon ({fault})", these.values("seconds"), _LOST[fault], "s")
            elif fault in _STAYS:
                yield worst(f"the answer is whole ({fault})", _others(these, "whole"), 0, "that were not")
                yield worst(f"without a long pause ({fault})", these.values("pause_s"), _PAUSE, "s")
            else:
                given_up = these.values("given_up_s")
                yield worst(f"the back end gives it up ({fault})", given_up, self.idle + _LATER, "s")

    def draw(self, figure: Figure, _topology: Topology, readings: Readings) -> None:
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


def _given_up(running: Running) -> float:
    """Seconds until the back end has no connection any more, or the longest that is waited."""
    begun = time.monotonic()
    while is_at_back_end(running) and time.monotonic() - begun < _LONGEST:
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


def _others(readings: Readings, outcome: str) -> list[float]:
    """1 for each that has another ``outcome``."""
    return [1 - value for value in readings.values(outcome)]


_MEANING = {"given_up_s": "until it is given up", "seconds": "until the reset", "pause_s": "longest pause"}
