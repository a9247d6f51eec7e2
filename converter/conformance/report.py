"""Results and checks as text for people and JSON for programs."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from .verdict import Check, Outcome, Result

SHOWN = 200  # characters of one line of hexadecimal


def table(results: Sequence[Result]) -> str:
    """A line for each check; for one that failed, what was expected, what came, and the bytes."""
    width = max((len(each.name) for each in results), default=4)
    lines = [f"{'check':{width}}  {'clause':6}  {'level':6}  {'result':6}  what came"]
    for each in results:
        lines.append(f"{each.name:{width}}  {each.clause:6}  {each.level:6}  {each.result:6}  {_cut(each.came)}")
        if each.result == Outcome.FAIL:
            lines += [f"    asks      {each.asks}", f"    expected  {each.expected}", f"    came      {each.came}"]
            lines += [f"    {_cut(note)}" for note in each.bytes]
    return "\n".join([*lines, "", summary(results)])


def summary(results: Sequence[Result]) -> str:
    """How many passed, were skipped and failed, in one line."""
    counts = Counter((each.result, each.level) for each in results)
    failures = {level: number for (result, level), number in counts.items() if result == Outcome.FAIL}
    passed = sum(each.result == Outcome.PASS for each in results)
    skipped = sum(each.result == Outcome.SKIP for each in results)
    failing = ", ".join(f"{number} {level}" for level, number in sorted(failures.items())) or "none"
    return f"{passed} passed, {skipped} skipped, failed: {failing}; {sum(each.seconds for each in results):.1f} s"


def to_json(results: Sequence[Result], converter: str) -> str:
    """All results, and how many there are of each outcome."""
    counts = Counter(each.result for each in results)
    document = {
        "converter": converter,
        "rfc": 8803,
        **{outcome.value: counts[outcome] for outcome in Outcome},
        "checks": [asdict(each) for each in results],
    }
    return json.dumps(document, indent=2)


def listing(checks: Sequence[Check]) -> str:
    """A line for each check that could run."""
    width = max((len(each.name) for each in checks), default=4)
    return "\n".join(f"{each.name:{width}}  {each.clause:6}  {each.level:6}  {each.asks}" for each in checks)


def listing_json(checks: Sequence[Check]) -> str:
    """The same for programs."""
    shown = [{"name": each.name, "clause": each.clause, "level": each.level, "asks": each.asks} for each in checks]
    return json.dumps(shown, indent=2)


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"
