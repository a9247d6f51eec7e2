"""Runs checks one after another."""

import time
from collections.abc import Callable, Iterable, Iterator

from .message import Garbled
from .rig import Rig, Settings
from .verdict import Check, Level, Outcome, Result, Skip, Unmet


def run(checks: Iterable[Check], settings: Settings, begin: Callable[[Check], None]) -> Iterator[Result]:
    """The result of each check; `begin` is told before each."""
    for check in checks:
        begin(check)
        yield run_one(check, settings)


def run_one(check: Check, settings: Settings) -> Result:
    """Runs one check, and closes all that it opened."""
    start = time.monotonic()
    with Rig(settings) as rig:
        result, expected, came = _judge(check, rig)
    seconds = round(time.monotonic() - start, 3)
    return Result(check.name, check.clause, check.level, check.asks, result, expected, came, seconds, rig.notes)


def _judge(check: Check, rig: Rig) -> tuple[Outcome, str, str]:
    try:
        return Outcome.PASS, "", check.run(rig)
    except Skip as reason:
        return Outcome.SKIP, "", str(reason)
    except Unmet as unmet:
        return Outcome.FAIL, unmet.expected, unmet.came
    except Garbled as garbled:
        return Outcome.FAIL, "a well-formed Convert message", str(garbled)
    except OSError as error:
        return Outcome.FAIL, "a working connection", str(error)


def failed(results: Iterable[Result]) -> bool:
    """True if the converter broke a MUST."""
    return any(each.result == Outcome.FAIL and each.level == Level.MUST for each in results)
