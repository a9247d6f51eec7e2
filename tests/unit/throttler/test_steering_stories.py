"""Sessions as stories: after so many readings the decider has made these changes, and counted these decisions."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.unit.throttler.steered import (
    FAST,
    HALF,
    MEGABYTE,
    SLOW,
    THIRD,
    Model,
    Rates,
    World,
    adding,
    knowing,
    limited,
    little,
    stalling,
    unequal,
)
from throttler.policy.quotas import SECOND
from throttler.steering.decider import Change, Kind
from tributary.mptcp.four_tuple import FourTuple

OUT, IN = Change(7, SLOW, backup=True), Change(7, SLOW, backup=False)
"""The slow path becomes a backup, and is used again."""
THIRD_OUT, THIRD_IN = Change(7, THIRD, backup=True), Change(7, THIRD, backup=False)
AGAIN = replace(SLOW, remote_port=50_000)
ALL = (FAST, SLOW, THIRD)

Step = tuple[int, list[Change]] | dict[str, Any]
"""So many readings with these changes, or what is otherwise in the world from here on."""


def at(**megabytes: float) -> Model:
    """Each path that is in use always sends, at this rate."""
    paths = {"fast": FAST, "slow": SLOW, "third": THIRD}
    rates = {paths[name]: (rate, 1.0) for name, rate in megabytes.items()}
    return lambda used: {name: rate for name, rate in rates.items() if name in used}


def idle(_: frozenset[FourTuple]) -> Rates:
    return {}


def stuck(_: frozenset[FourTuple]) -> Rates:
    """The fast path has nothing to send while the slow one still does."""
    return {FAST: (0.0, 0.0), SLOW: (0.2, 1.0)}


def waiting_for_any(used: frozenset[FourTuple]) -> Rates:
    """The fast path waits for any other."""
    rest = dict.fromkeys(used - {FAST}, (0.1, 1.0))
    return rest | {FAST: (3.0, 0.5) if rest else (6.0, 1.0)}


def two_waiting(used: frozenset[FourTuple]) -> Rates:
    """Two wait for the slow one."""
    share = 0.5 if SLOW in used else 1.0
    return {FAST: (6.0 * share, share), THIRD: (5.0 * share, share)} | ({SLOW: (0.1, 1.0)} if SLOW in used else {})


def third_joining(used: frozenset[FourTuple]) -> Rates:
    return {**limited(used), **({THIRD: (3.0, 0.5)} if THIRD in used else {})}


def faster_meanwhile(used: frozenset[FourTuple]) -> Rates:
    return {FAST: (7.0, 1.0), SLOW: (0.1, 1.0)} if SLOW in used else {FAST: (6.0, 1.0)}


def idle_once(number: int) -> Model:
    """The fast path has nothing to send in one reading."""
    seen = 0

    def model(_: frozenset[FourTuple]) -> Rates:
        nonlocal seen
        seen += 1
        return {FAST: (0.0, 0.0) if seen == number else (6.0, 1.0), SLOW: (0.9, 1.0)}

    return model


def growing(rate: float, factor: float, most: float = 100.0) -> Model:
    """The slow path's rate grows with each reading in which it is in use, and begins anew when it is not."""
    readings = 0

    def model(used: frozenset[FourTuple]) -> Rates:
        nonlocal readings
        readings = readings + 1 if SLOW in used else 0
        return at(fast=6.0, slow=min(most, rate * factor**readings))(used)

    return model


SLOWER = {"model": at(fast=0.5, slow=0.1)}
"""From here on the better path is slow."""

VARYING: list[Step] = []
for _rate in (4.0, 6.0, 4.0):
    VARYING += [{"model": at(fast=_rate)}, (10, [])]


@dataclass
class Story:
    """A session, its steps, the kinds of the decisions that were counted, and how many paths were learned about."""

    session: Callable[[], World]
    steps: list[Step]
    counted: str = ""
    learned: int = 0


STORIES = {
    "beside many sessions rare readings are enough": Story(
        lambda: World(stalling, every=9 * HALF), [(2, [OUT]), (1, [])], "trial kept", learned=1
    ),
    "who has one path is left alone": Story(lambda: World(at(slow=0.1), names=(SLOW,)), [(50, [])]),
    "who asks for a backup is left alone": Story(lambda: World(limited, by_client={SLOW}), [(50, [])]),
    "what an earlier run left is used again": Story(lambda: World(adding, made={SLOW}), [(1, [IN]), (20, [])], "left"),
    "even where it is the only path": Story(lambda: World(adding, names=(SLOW,), made={SLOW}), [(1, [IN])]),
    "all are used again within ten seconds after the better one became slow": Story(
        lambda: World(stalling), [(12, [OUT]), SLOWER, (20, [IN])], "trial kept worse"
    ),
    "so is one that brought little": Story(
        lambda: World(little), [(12, [OUT]), {"model": at(fast=0.3, slow=0.3)}, (20, [IN])], "untried worse"
    ),
    "a backup is tried again and used if it has become good": Story(
        lambda: World(stalling), [(20, [OUT]), {"model": adding}, (120, [IN])], "trial kept retry freed"
    ),
    "or if it loses nothing any more though it brings less than a tenth": Story(
        lambda: World(stalling), [(20, [OUT]), {"model": unequal}, (120, [IN])], "trial kept retry freed"
    ),
    "one that brings nothing stays one though the other became faster meanwhile": Story(
        lambda: World(stalling),
        [(20, [OUT]), {"model": faster_meanwhile}, (80, [IN, OUT])],
        "trial kept retry back",
        learned=1,
    ),
    "a backup is used when the others have ended": Story(
        lambda: World(stalling), [(12, [OUT]), {"names": (SLOW,)}, (1, [IN])], "trial kept", learned=1
    ),
    "or when the client makes them backups": Story(
        lambda: World(stalling), [(12, [OUT]), {"by_client": {FAST}}, (1, [IN])], "trial kept worse", learned=1
    ),
    "also during a trial": Story(
        lambda: World(stalling), [(5, [OUT]), {"by_client": {FAST}}, (1, [IN])], "trial worse"
    ),
    "of three paths the best alone is tried": Story(
        lambda: World(waiting_for_any, names=ALL), [(4, [OUT, THIRD_OUT]), (20, [])], "trial kept", learned=2
    ),
    "of three paths those that also wait stay in use": Story(
        lambda: World(two_waiting, names=ALL), [(4, [OUT]), (20, [])], "trial kept", learned=1
    ),
    "of three paths two that bring much together go neither at once nor one after the other": Story(
        lambda: World(at(fast=6.0, slow=0.2, third=0.25), names=ALL),
        [(8, [OUT]), (200, [IN, OUT, IN, OUT])],
        "untried retry retry back back",
        learned=1,
    ),
    "where the kernel refuses one of two the other one is used again": Story(
        lambda: World(waiting_for_any, names=ALL, refused={THIRD}), [(10, [OUT, THIRD_OUT, IN])], "trial refused"
    ),
    "a path is not idle before it joins": Story(
        lambda: World(at(fast=1.0, slow=6.0), names=(FAST,)), [(2, []), {"names": (FAST, SLOW)}, (60, [])]
    ),
    "a path that joins again is not tried sooner": Story(
        lambda: World(waiting_for_any),
        [(12, [OUT]), {"names": (FAST, AGAIN), "made": set()}, (30, [Change(7, AGAIN, backup=True)])],
        "trial kept learned",
        learned=1,
    ),
    "one reading in which the best path is idle is no reason": Story(lambda: World(idle_once(5)), [(40, [])]),
    "a path that brings little stays in use if it is quicker": Story(
        lambda: World(little, round_trips={FAST: 80_000}), [(60, [])]
    ),
    "or is not always sending": Story(lambda: World(lambda _: {FAST: (6.0, 1.0), SLOW: (0.2, 0.8)}), [(60, [])]),
    "or brings a tenth": Story(lambda: World(at(fast=6.0, slow=0.7)), [(60, [])]),
    "or grows": Story(lambda: World(growing(0.01, 1.3, most=2.0)), [(60, [])]),
    "one whose rate creeps up is not in slow start": Story(
        lambda: World(growing(0.1, 1.02)), [(6, [OUT])], "untried", learned=1
    ),
    "a backup that is tried again may take its time in slow start": Story(
        lambda: World(stalling, round_trips={FAST: 20_000, SLOW: 600_000}),
        [(20, [OUT]), {"model": growing(0.01, 1.8, most=2.0)}, (120, [IN])],
        "trial kept retry freed",
    ),
    "a best path that varies by a third is no reason to use the others again": Story(
        lambda: World(little), [(8, [OUT]), *VARYING], "untried", learned=1
    ),
    "a slower path that loses nothing is used though it brings less than a tenth": Story(
        lambda: World(unequal), [(200, [])]
    ),
    "a queue that overflows now and then is no loss": Story(
        lambda: World(unequal, losing=lambda reading, _: reading % 3 == 0), [(200, [])]
    ),
    "one that loses at each reading is a backup": Story(
        lambda: World(unequal, losing=lambda _, name: name == SLOW), [(12, [OUT])], "untried", learned=1
    ),
    "one that has never lost anything could bring more than the server has": Story(
        lambda: World(little, again=Counter()), [(100, [])]
    ),
    "and is tried where it sent much before and now so little that the fast path has nothing to send": Story(
        lambda: World(adding, again=Counter()), [(6, []), {"model": stuck}, (20, [OUT, IN])], "trial undone"
    ),
    "a pause before a trial does not make what follows look faster": Story(
        lambda: World(idle), [(3, []), {"model": limited}, (3, [OUT]), (20, [IN])], "trial undone"
    ),
    "what a path brings that joins during a trial does not count": Story(
        lambda: World(third_joining), [(4, [OUT]), {"names": ALL}, (12, [IN])], "trial undone"
    ),
    "a path that is gone ends its trial": Story(
        lambda: World(stalling, names=ALL), [(4, [OUT]), {"names": (FAST, THIRD)}, (20, [])], "trial"
    ),
    "a server that sends more during a trial and still pauses is no gain": Story(
        lambda: World(limited),
        [(4, [OUT]), {"model": lambda _: {FAST: (4.0, 0.6), SLOW: (0.1, 1.0)}}, (12, [IN])],
        "trial undone",
    ),
    "by what was learned all are used where nothing comes": Story(
        lambda: knowing(lambda used: dict.fromkeys(used, (0.0, 1.0)), 100 * SECOND),
        [(1, [OUT]), (4, [IN])],
        "learned worse",
    ),
    "what began the session is used until the better one has brought as much": Story(
        lambda: knowing(adding, acked=Counter({SLOW: 3 * MEGABYTE})), [(1, []), (1, [OUT])], "learned", learned=1
    ),
    "what was learned is tried again, and the path notices that it became slow": Story(
        lambda: knowing(stalling),
        [
            (40, [OUT, IN, OUT]),
            {"model": lambda used: stalling(used) if SLOW in used else {FAST: (0.5, 1.0)}},
            (8, [IN]),
        ],
        "learned retry back worse",
    ),
}
"""By what is true of each."""


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_it_is_as_the_story_says(story: Story) -> None:
    world = story.session()
    for step in story.steps:
        if isinstance(step, dict):
            vars(world).update(step)
        else:
            readings, changes = step
            assert world.read(readings) == changes
    assert world.decider.counts == Counter(Kind[kind.upper()] for kind in story.counted.split())
    assert len(world.decider.learned) == story.learned
