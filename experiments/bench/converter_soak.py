"""Ten minutes of connections that come, go, half-close and die at random through the native converter.

Every byte is checked at both ends (``tributary-load soak``). At the end there must be no more memory and no more
descriptors than after the first moments, which fill the allocator's pools.
"""

import json
import time
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import Field

from experiments.bench.converter.contenders import CONTENDERS
from experiments.bench.converter.footprint import resident
from experiments.bench.parts import NATIVE
from experiments.scenarios.cabled import Cabled, Cables
from experiments.study.benchmark import benchmark
from experiments.study.figures import Figures
from experiments.study.readings import Point, Reading, Readings
from experiments.study.scenario import Options, Repeat
from experiments.testbed.cables import SERVER, Cabling
from tributary.settings.failure import Exit, Failure

_PEER = f"{SERVER}:8090"
_CONNECTIONS = 200
_WARM_UP = 5
_COUNTED = (
    *("connections", "checked_gb", "half_closes", "resets", "resets_unheard", "wrong"),
    *("leaked_kb", "leaked_descriptors"),
)
_WRONG = ("wrong_bytes", "truncated", "broken", "stuck", "without_plan", "resets_as_ends")


class SoakOptions(Options):
    """``seconds``: of the one long run."""

    repeat: Repeat = 1
    seconds: int = Field(default=600, ge=1, description="a whole number of seconds, at least 1")


def _measure(built: Cabled, options: SoakOptions, point: Point, repetition: int) -> Reading:
    """Raises Failure (exit 1) if a byte was wrong or an end was not what it was."""
    cabling, native = built.cabling, CONTENDERS[NATIVE]
    # A kernel loses a reset by MPTCP now and then (``resets_unheard``), and gives the session up this much later.
    cabling.testbed.client.sysctl(net__mptcp__close_timeout=5)
    command = [str(cabling.programs.load), "soak-origin", "--listen", _PEER]
    with (
        native.running(cabling) as converter,
        cabling.testbed.server.start("soak-origin", command).wait_until_ready(),
    ):
        pid = converter.popen.pid
        _played(cabling, native.listens, _WARM_UP, seed=1)
        before = _taken(pid)
        told = _played(cabling, native.listens, options.seconds, seed=1 + repetition)
        time.sleep(2)  # what the last ones left comes to its end
        after = _taken(pid)
    client, origin = told["client"], told["origin"]
    wrong = sum(side[what] for side in (client, origin) for what in _WRONG)
    if wrong:
        raise Failure(Exit.WRONG_RESULT, f"the soak found what is wrong: {json.dumps(told)}")
    values = {
        "connections": client["connections"],
        "checked_gb": (client["checked_bytes"] + origin["checked_bytes"]) / 1e9,
        "half_closes": client["half_closes"] + origin["half_closes"],
        "resets": client["resets"] + origin["resets"],
        "resets_unheard": client["resets_unheard"] + origin["resets_unheard"],
        "wrong": wrong,
        "leaked_kb": (after[0] - before[0]) / 1e3,
        "leaked_descriptors": after[1] - before[1],
    }
    return Reading(point, repetition, {name: float(value) for name, value in values.items()}, {})


def figures(readings: Readings) -> Figures:
    """What was counted."""
    return Figures(values={name: median(readings.values(name)) for name in _COUNTED})


def _played(cabling: Cabling, converter: str, seconds: int, seed: int) -> dict[str, Any]:
    route = ("--to", _PEER, "--via-connect", converter, "--mptcp")
    play = ("soak", "--seconds", str(seconds), "--connections", str(_CONNECTIONS), "--seed", str(seed))
    printed = cabling.testbed.client.run(str(cabling.programs.load), *play, *route)
    told: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return told


def _taken(pid: int) -> tuple[int, int]:
    """Resident bytes and open descriptors."""
    return resident(pid), len(list((Path("/proc") / str(pid) / "fd").iterdir()))


SCENARIO = benchmark(
    name="converter-soak",
    question="Connections come, go, half-close and die for ten minutes: is every byte right, does anything leak?",
    about=__doc__,
    options=SoakOptions,
    quick={"seconds": 10},
    points=lambda _options: [{"by": NATIVE}],
    blueprint=lambda _options, _profile, _point: Cables(),
    measure=_measure,
    figures=figures,
)
