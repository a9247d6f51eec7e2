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


def test_without_probes_it_is_the_first_by_rank_and_without_links_none() -> None:
    assert quickest(EQUALS, {}, None) == "dsl"
    assert quickest([], {}, "dsl") is None


def test_a_link_that_is_much_quicker_takes_over() -> None:
    assert quickest(EQUALS, of(dsl=60, lte=40, cable=20), None) == "cable"


@pytest.mark.parametrize(("dsl", "lte"), [(27, 20), (4, 1)], ids=["by a quarter", "by three milliseconds"])
def test_one_that_is_a_little_quicker_does_not(dsl: float, lte: float) -> None:
    assert quickest(EQUALS, of(dsl=dsl, lte=lte, cable=200), None) == "dsl"


def test_two_answers_are_too_few() -> None:
    assert quickest(EQUALS, of(dsl=60, lte=20, cable=60, answers=2), None) == "dsl"


def test_the_shortest_of_several_counts_since_others_have_waited_in_a_queue() -> None:
    recent = {"dsl": [0.2, 0.02, 0.2], "lte": [0.04, 0.04, 0.04]}
    assert quickest(EQUALS, recent, None) == "dsl"


def test_what_was_chosen_stays_while_it_is_quicker_and_not_when_it_is_slower() -> None:
    assert quickest(EQUALS, of(dsl=50, lte=45, cable=90), "lte") == "lte"
    assert quickest(EQUALS, of(dsl=50, lte=51, cable=90), "lte") == "dsl"


def test_what_was_chosen_stays_while_nothing_is_known_of_the_first_one() -> None:
    known = {"lte": [0.02] * 6}
    assert quickest(EQUALS, known, "lte") == "lte"
    assert quickest(EQUALS, known, None) == "dsl"


def test_round_trip_times_that_cross_to_and_fro_by_little_change_nothing() -> None:
    chosen, seen = None, []
    for lte in (48, 52, 47, 53, 40, 60):
        chosen = quickest(EQUALS, of(dsl=50, lte=lte, cable=90), chosen)
        seen.append(chosen)
    assert seen == ["dsl"] * 6


def test_a_link_that_is_gone_gives_way_to_those_that_work() -> None:
    assert quickest(EQUALS[:2], of(dsl=60, lte=50, cable=20), "cable") == "dsl"


@pytest.mark.parametrize(
    ("dsl", "lte"), [("priority = 1", ""), ("", 'use = "overflow"'), ("", "metered = true"), ("", 'use = "backup"')]
)
def test_use_metering_and_priority_come_before(dsl: str, lte: str) -> None:
    ranked = links(f'[wan.dsl]\ninterface = "a"\n{dsl}\n[wan.lte]\ninterface = "b"\n{lte}')
    assert quickest(ranked, {"dsl": [0.6] * 6, "lte": [0.02] * 6}, "lte") == "dsl"
