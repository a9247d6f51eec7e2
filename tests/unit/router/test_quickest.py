from collections.abc import Sequence

import pytest

from router.links.model import Link
from router.links.quickest import quickest
from tests.unit.router.house import settings


def links(text: str) -> list[Link]:
    """By rank, as the daemon has them."""
    made = settings(text)
    return [Link(name, made.wan[name], list(made.wan).index(name), rank) for rank, name in enumerate(made.by_rank)]


EQUALS = links('[wan.dsl]\ninterface = "a"\n[wan.lte]\ninterface = "b"\n[wan.cable]\ninterface = "c"')


def of(dsl: float, lte: float, cable: float, answers: int = 3) -> dict[str, Sequence[float]]:
    """Milliseconds of each, every probe's the same."""
    return {name: [ms / 1000] * answers for name, ms in (("dsl", dsl), ("lte", lte), ("cable", cable))}


@pytest.mark.parametrize(
    ("recent", "before", "found"),
    [
        pytest.param({}, None, "dsl", id="without probes the first by rank"),
        pytest.param(of(dsl=60, lte=40, cable=20), None, "cable", id="one that is much quicker"),
        pytest.param(of(dsl=27, lte=20, cable=200), None, "dsl", id="one that is quicker by a quarter is not enough"),
        pytest.param(of(dsl=4, lte=1, cable=200), None, "dsl", id="nor one by three milliseconds"),
        pytest.param(of(dsl=60, lte=20, cable=60, answers=2), None, "dsl", id="two answers are too few"),
        # The others have waited in a queue.
        pytest.param({"dsl": [0.2, 0.02, 0.2], "lte": [0.04] * 3}, None, "dsl", id="the shortest of several counts"),
        pytest.param(of(dsl=50, lte=45, cable=90), "lte", "lte", id="what was chosen stays while it is quicker"),
        pytest.param(of(dsl=50, lte=51, cable=90), "lte", "dsl", id="and not when it is slower"),
        pytest.param({"lte": [0.02] * 6}, "lte", "lte", id="it stays while nothing is known of the first one"),
        pytest.param({"lte": [0.02] * 6}, None, "dsl", id="and is not chosen then"),
    ],
)
def test_the_quickest_is_chosen(recent: dict[str, Sequence[float]], before: str | None, found: str) -> None:
    assert quickest(EQUALS, recent, before) == found


def test_round_trip_times_that_cross_to_and_fro_by_little_change_nothing() -> None:
    chosen, seen = None, []
    for lte in (48, 52, 47, 53, 40, 60):
        chosen = quickest(EQUALS, of(dsl=50, lte=lte, cable=90), chosen)
        seen.append(chosen)
    assert seen == ["dsl"] * 6


def test_a_link_that_is_gone_gives_way_to_those_that_work() -> None:
    assert quickest([], {}, "dsl") is None
    assert quickest(EQUALS[:2], of(dsl=60, lte=50, cable=20), "cable") == "dsl"


@pytest.mark.parametrize(
    ("dsl", "lte"), [("priority = 1", ""), ("", 'use = "overflow"'), ("", "metered = true"), ("", 'use = "backup"')]
)
def test_use_metering_and_priority_come_before(dsl: str, lte: str) -> None:
    ranked = links(f'[wan.dsl]\ninterface = "a"\n{dsl}\n[wan.lte]\ninterface = "b"\n{lte}')
    assert quickest(ranked, {"dsl": [0.6] * 6, "lte": [0.02] * 6}, "lte") == "dsl"
