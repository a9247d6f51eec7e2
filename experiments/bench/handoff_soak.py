"""A million requests by kept connections, at two back ends in turn: is any answered with another one's bytes?

    client -- switch -- front, back end a, back end b      plain cables

Every object has a content of its own, of a random size, known at every offset (tributary-load's generate and fetch).
Each request is for any part of any object, at any back end: so every second one goes to another back end than the one
before, over the same connection. Some are sent before the one before is answered, some clients rest in between.

With ``rest``, 100 more clients rest for so long, once each: half of them in the midst of a back end's answer, which
fills their window, the others between two requests, when the connection is at the front again. ``rest`` stays below the
silence that ends a connection: ``--idle`` of back ends and switch, 300 s, and the front's ``timeouts.idle``, 600 s.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import Field

from experiments.handoff.contest import Contest
from experiments.handoff.network import SERVICE, standing_network
from experiments.handoff.running import HANDED_OVER, at_work
from experiments.study.blueprint import Ground, Standing
from experiments.study.experiment import Count, Experiment, Repeat
from experiments.study.readings import Point, Reading
from experiments.testbed import native
from experiments.testbed.build import reserved
from experiments.testbed.node import run
from tributary.settings.errors import CommandError, Exit

_COUNTED = ("answers", "bytes", "wrong", "connections", "broken", "per_second", "handed_over", "rested")
_IDLE = 300
"""Seconds of silence after which switch and back end give a connection up."""
_RESTING = 100
"""Clients, of which each rests once."""
_LARGE = ("--objects", "20", "--bits", "21")
"""What they ask for: half of the longest object, 2.0 MB at a and 0.8 MB at b, is more than the window of a client."""


@contextmanager
def _stocked(name: str, _seed: int, _tolerance: float) -> Iterator[Standing[Contest]]:
    """A hand-off at work, over cables; each back end has the objects below its name."""
    with reserved(name) as directory, standing_network(f"trib-{name}", directory) as network:
        for each in network.back_ends:
            generate = native.load("generate", "--below", str(network.objects(each)))
            for large in ((), _LARGE):
                run([*generate, "--folders", each, *large])
        with at_work(network):
            yield Standing(Contest(network))


class HandoffSoak(Experiment):
    """``requests`` by so many ``clients``, each with one connection at a time. ``rest``: seconds that further clients
    rest; 0: there are none of these.
    """

    claim = "A million requests by connections that change their back end: is every byte of every answer right?"
    quotes = _COUNTED
    quick = {"requests": 5000, "clients": 16, "rest": 2}
    at = [{"objects": "random"}]
    ground = Ground({"cables": "veth"}, _stocked)

    repeat: Repeat = 1
    requests: Count = 1_000_000
    clients: Count = 64
    rest: float = Field(default=0, ge=0, lt=_IDLE, description=f"seconds, at least 0 and below {_IDLE}")

    def measure(self, built: Contest, point: Point, repetition: int) -> Reading:
        """Raises CommandError (exit 1) if an answer was wrong or a connection broke."""
        asked = ("--requests", str(self.requests), "--clients", str(self.clients))
        report = _fetch(built, *asked)
        log = (built.network.directory / "access.log").read_text()
        counted = told(report, log)
        if self.rest:
            # Half of the requests come before the rests, half of them behind.
            asked = ("--requests", str(20 * _RESTING), "--clients", str(_RESTING))
            report = _fetch(built, *_LARGE, *asked, "--rest", str(self.rest))
            counted["rested"] = told(report, log)["rested"]
        return Reading(point, repetition, counted)


def _fetch(built: Contest, *asked: str) -> dict[str, Any]:
    """What clients report that have asked for objects of all back ends."""
    command = native.load("fetch", "--to", SERVICE, "--folders", ",".join(built.network.back_ends))
    with built.client.start("fetch", [*command, *asked]) as process:
        process.popen.wait()
        return process.report()


def told(report: dict[str, Any], log: str) -> dict[str, float]:
    """What a client's report comes to, and of the front's access log how many of the requests were handed over. Pure.

    Raises CommandError (exit 1) if an answer was wrong or a connection broke.
    """
    if report["wrong"] or report["broken"]:
        raise CommandError(Exit.WRONG_RESULT, f"of the requests for objects: {json.dumps(report)}")
    counted = {name: float(report[name]) for name in _COUNTED if name in report}
    return counted | {"handed_over": float(log.count(HANDED_OVER))}
