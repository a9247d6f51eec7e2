"""Runs a check."""

import time

from .message import Garbled
from .rig import Rig, Settings
from .verdict import Check, Outcome, Result, Skip, Unmet


def run(check: Check, settings: Settings) -> Result:
    """Runs one check, and closes all that it opened."""
    start = time.monotonic()
    with Rig(settings) as rig:
        result, expected, came = _judge(check, rig)
    seconds = round(time.monotonic() - start, 3)
    return Result(check.name, check.clause, check.level, check.asks, result, expected, came, seconds, rig.notes)


def _judge(check: Check, rig: Rig) -> tuple[Outcome, str, str]:
    try:
        return Outcome.PASS, "", check.run(rig, *check.given)
    except Skip as reason:
        return Outcome.SKIP, "", str(reason)
    except Unmet as unmet:
        return Outcome.FAIL, unmet.expected, unmet.came
    except Garbled as garbled:
        return Outcome.FAIL, "a well-formed Convert message", str(garbled)
    except OSError as error:
        return Outcome.FAIL, "a working connection", str(error)
