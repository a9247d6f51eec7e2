"""Ten minutes of connections that come, go, half-close and die at random through the native converter.

Every byte is checked at both ends (``tributary-load soak``). At the end there must be no more memory and no more
descriptors than after the first moments, which fill the allocator's pools.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.bench.converter.contenders import NATIVE, every_contender
from experiments.bench.converter.footprint import resident
from experiments.bench.pair import NAME
from experiments.bench.result import Result
from experiments.testbed.cables import SERVER, Cabling, laid_out
from experiments.testbed.native import build
from tributary.settings.failure import Exit, Failure

_PEER = f"{SERVER}:8090"
_CONNECTIONS = 200
_WARM_UP = 5
_WRONG = ("wrong_bytes", "truncated", "broken", "stuck", "without_plan", "resets_as_ends")


def soak(quick: bool, say: Callable[[str], None]) -> Result:
    """600 seconds, or 10 if ``quick``. Raises Failure (exit 1) if a byte was wrong or an end was not what it was."""
    seconds = 10 if quick else 600
    programs = build(released=True)
    with laid_out(programs, NAME) as cabling:
        native = next(each for each in every_contender(cabling) if each.name == NATIVE)
        # A kernel loses a reset by MPTCP now and then (``resets_unheard``), and gives the session up this much later.
        cabling.testbed.client.sysctl(net__mptcp__close_timeout=5)
        command = [str(programs.load), "soak-origin", "--listen", _PEER]
        with (
            native.running(cabling) as converter,
            cabling.testbed.server.start("soak-origin", command).wait_until_ready(),
        ):
            pid = converter.popen.pid
            _played(cabling, native.listens, _WARM_UP, seed=1)
            before = _taken(pid)
            say(f"{seconds} seconds of {_CONNECTIONS} connections at a time")
            told = _played(cabling, native.listens, seconds, seed=2)
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
    return Result(series=(), values={name: float(value) for name, value in values.items()})


def _played(cabling: Cabling, converter: str, seconds: int, seed: int) -> dict[str, Any]:
    route = ("--to", _PEER, "--via-connect", converter, "--mptcp")
    play = ("soak", "--seconds", str(seconds), "--connections", str(_CONNECTIONS), "--seed", str(seed))
    printed = cabling.testbed.client.run(str(cabling.programs.load), *play, *route)
    told: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return told


def _taken(pid: int) -> tuple[int, int]:
    """Resident bytes and open descriptors."""
    return resident(pid), len(list((Path("/proc") / str(pid) / "fd").iterdir()))
