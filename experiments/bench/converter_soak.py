"""Ten minutes of connections that come, go, half-close and die at random through the native converter.

Every byte is checked at both ends (``tributary-load soak``). At the end there must be no more memory and no more
descriptors than after the first moments, which fill the allocator's pools.

With ``resting``, so many connections more rest meanwhile, for up to half of the converter's time-outs or for longer
than they are; those are to be reset, and not before. Half as many HTTP clients rest between their requests.
"""

import json
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from experiments.bench.converter.contenders import CONTENDERS, Contender
from experiments.bench.parts import NATIVE
from experiments.scenarios.cabled import cabled
from experiments.study.experiment import Count, Experiment, Repeat
from experiments.study.readings import Point, Reading
from experiments.testbed import native
from experiments.testbed.build import Testbed
from experiments.testbed.cables import SERVER
from experiments.testbed.node import Process
from experiments.testbed.usage import resident
from tributary.settings.errors import CommandError, Exit

_PEER = f"{SERVER}:8090"
_CONNECTIONS = 200
_WARM_UP = 5
_SEEN, _CHECKED = ("half_closes", "resets", "resets_unheard", "rests", "reaped"), "checked_bytes"
"""What both ends tell of, beside what is _WRONG."""
_WRONG = ("wrong_bytes", "truncated", "broken", "stuck", "outlived", "without_plan", "resets_as_ends")


class ConverterSoak(Experiment):
    """``seconds``: of the one long run, after which connections that rest are waited for. ``resting``: how many of
    these there are at a time. ``idle``, ``half_closed``: the converter's time-outs, in seconds; by default its own.
    """

    claim = "Connections come, go, half-close and die for ten minutes: is every byte right, does anything leak?"
    quick = {"seconds": 10}
    at = [{"by": NATIVE}]
    ground = cabled()
    quotes = (
        *("connections", "checked_gb", "half_closes", "resets", "resets_unheard", "wrong"),
        *("rests", "reaped", "requests", "leaked_kb", "leaked_descriptors"),
    )

    repeat: Repeat = 1
    seconds: Count = 600
    resting: int = Field(default=0, ge=0, description="a count, at least 0")
    idle: int = Field(default=600, ge=3, description="a whole number of seconds, at least 3")
    half_closed: int = Field(default=120, ge=2, description="a whole number of seconds, at least 2")

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        """Raises CommandError (exit 1) if a byte was wrong or an end was not what it was."""
        ours = CONTENDERS[NATIVE]
        timeouts = f'[timeouts]\nidle = "{self.idle}s"\nhalf_closed = "{self.half_closed}s"\n'
        ours = replace(ours, program=replace(ours.program, settings=ours.program.settings + timeouts))
        limits = ("--idle", str(self.idle), "--half-closed", str(self.half_closed))
        resting = ("--resting", str(self.resting), *limits) if self.resting else ()
        # A kernel loses a reset by MPTCP now and then (``resets_unheard``), and gives the session up this much later.
        testbed.client.sysctl(net__mptcp__close_timeout=5)
        command = native.load("soak-origin", "--listen", _PEER)
        with ours.running(testbed) as converter, testbed.server.start("soak-origin", command).wait_until_ready():
            pid = converter.popen.pid
            _played(testbed, ours.listens, _WARM_UP, seed=1)
            before = _taken(pid)
            with self._asking(testbed, ours) as asking:
                told = _played(testbed, ours.listens, self.seconds, 1 + repetition, *resting)
                requests = self._answered(asking)
            time.sleep(2)  # what the last ones left comes to its end
            after = _taken(pid)
        both = {what: sum(told[side][what] for side in ("client", "origin")) for what in (*_SEEN, *_WRONG, _CHECKED)}
        wrong = sum(both[what] for what in _WRONG)
        if wrong:
            raise CommandError(Exit.WRONG_RESULT, f"the soak found what is wrong: {json.dumps(told)}")
        values = {
            "connections": told["client"]["connections"],
            "checked_gb": both[_CHECKED] / 1e9,
            **{what: both[what] for what in _SEEN},
            "wrong": wrong,
            "requests": requests,
            "leaked_kb": (after[0] - before[0]) / 1e3,
            "leaked_descriptors": after[1] - before[1],
        }
        return Reading(point, repetition, {name: float(value) for name, value in values.items()})

    def _asking(self, testbed: Testbed, converter: Contender) -> AbstractContextManager[Process | None]:
        """HTTP clients that rest between their requests, on connections that the converter keeps, if any are to."""
        if not self.resting:
            return nullcontext()
        clients, pause = max(1, self.resting // 2), self.idle * 500
        ask = ("requests", "--clients", str(clients), "--pause", str(pause), "--seconds", str(self.seconds))
        return testbed.client.start("requests", native.load(*ask, *converter.route, "--mptcp"))

    def _answered(self, asking: Process | None) -> int:
        """How many of their requests were answered, when they have ended; raises CommandError (exit 1) unless all."""
        if asking is None:
            return 0
        asking.popen.wait(self.idle + 60)
        told = asking.report()
        if told["errors"]:
            raise CommandError(
                Exit.WRONG_RESULT, f"requests of clients that rest were not answered: {json.dumps(told)}"
            )
        return int(told["requests"])


def _played(testbed: Testbed, converter: str, seconds: int, seed: int, *resting: str) -> dict[str, Any]:
    route = ("--to", _PEER, "--via-connect", converter, "--mptcp")
    play = ("soak", "--seconds", str(seconds), "--connections", str(_CONNECTIONS), "--seed", str(seed))
    with testbed.client.start("soak", native.load(*play, *resting, *route)) as process:
        process.popen.wait()
        return process.report()


def _taken(pid: int) -> tuple[int, int]:
    """Resident bytes and open descriptors."""
    return resident(pid), len(list((Path("/proc") / str(pid) / "fd").iterdir()))
