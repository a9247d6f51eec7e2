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

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from matplotlib.figure import Figure
from pydantic import Field

from experiments.handoff.network import BACK_ENDS, SERVICE, shape, standing_network
from experiments.handoff.running import Running, at_work, wait_until_handed_over
from experiments.plots import tidy
from experiments.study.blueprint import Ground, Standing
from experiments.study.experiment import Experiment, Seconds
from experiments.study.readings import Point, Reading, Readings, Verdict, worst
from experiments.testbed.build import reserved
from experiments.testbed.node import python
from experiments.testbed.topology import Profile, Topology
from tributary.settings.errors import CommandError, Exit
from tributary.settings.units import PositiveRate, Rate, Size

_LOST = {"back-end-killed": 1.0, "back-end-cut-off": 6.0}
"""Seconds within which a client is reset."""
_STAYS, _GONE = ("switch-restarted", "front-restarted"), "client-gone"
_PAUSE = 5.0
"""Seconds until a switch is there again, and a packet that was lost meanwhile is sent once more."""
_LATER = 5.0
"""Seconds by which a client may be given up too late."""
_LOOK = 0.05
_LONGEST = 120.0
FAILING = BACK_ENDS[0]
"""The back end that fails, and that has the object."""
OBJECT = "object"


@contextmanager
def started_anew(running: Running, name: str) -> Iterator[None]:
    """A part is killed and there again at once."""
    running.kill(name)
    running.start(name)
    yield


def cut_off(running: Running, name: str) -> AbstractContextManager[None]:
    """A node's cable is cut for the length of the block."""
    return running.network.nodes["switch"].without(f"to-{name}")


FAULTS: Mapping[str, Callable[[Running], AbstractContextManager[None]]] = {
    "back-end-killed": lambda running: running.killed(FAILING),
    "back-end-cut-off": lambda running: cut_off(running, FAILING),
    "switch-restarted": lambda running: started_anew(running, "switch"),
    "front-restarted": lambda running: started_anew(running, "front"),
    "client-gone": lambda running: cut_off(running, "client"),
}


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
                    return Reading(point, repetition, {"given_up_s": _given_up(running), "wrong": 0.0})
                if client.popen.wait(_LONGEST):
                    raise CommandError(Exit.SYSTEM, f"the client failed: {client.output()}")
        return Reading(point, repetition, told(client.report(), begun))

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
    begun, at_back_end = time.monotonic(), ("state", "connected", "exclude", "time-wait", "sport", "=", ":7400")
    while running.network.nodes[FAILING].run("ss", "-Htn", *at_back_end) and time.monotonic() - begun < _LONGEST:
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


def failing(rate: Rate, size: int, idle: int) -> Ground[Running]:
    """Links of ``rate``, an object of ``size`` bytes; back ends wait ``idle`` seconds. Raises CommandError (exit 71) as
    it begins to stand if no connection is handed over.
    """

    @contextmanager
    def stands(name: str, _seed: int, _tolerance: float) -> Iterator[Standing[Running]]:
        with reserved(name) as directory, standing_network(f"trib-{name}", directory) as network:
            shape(network, rate.amount, 1)
            folder = network.objects(FAILING) / FAILING
            folder.mkdir()
            (folder / OBJECT).write_bytes(os.urandom(size))
            with at_work(network, "--idle", str(idle)) as running:
                yield Standing(running)

    return Ground({"rate": str(rate), "back_ends": len(BACK_ENDS), "idle": idle}, stands)
