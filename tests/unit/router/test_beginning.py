from collections.abc import Sequence

import pytest

from router import api
from router.links.model import Link
from router.links.quickest import quickest
from router.state.owned import NOTHING_OWNED
from router.state.reconciler import Reconciler
from tests.unit.router.enrolled import FIRST, Script, answering
from tests.unit.router.house import DSL, LTE, SETTINGS, house, settings
from tributary.wireguard.enrolment import text

OVERFLOW = SETTINGS.replace("[wan.lte]", 'use = "overflow"\n[wan.lte]\nuse = "overflow"')


@pytest.fixture
def answered() -> Script:
    return answering()


def quick(script: Script, **ms: float) -> list[str]:
    """Six answers by each of these links after so many milliseconds; the commands that follow."""
    for _ in range(6):
        for link, each in ms.items():
            script.reconciler.health.record(link, each / 1000)
    return script.reconcile()


def beginning(script: Script) -> list[str]:
    """The links that begin sessions, as the status has them."""
    return [link["name"] for link in api.status(script.reconciler, 0, 0)["wan"] if link["begins_sessions"]]


def test_of_equal_links_the_quickest_begins_sessions_and_there_is_a_route_inside_all_the_time(answered: Script) -> None:
    assert quick(answered, dsl=80, lte=20) == ["ip route add 10.84.0.1/32 dev tb2 metric 0 proto 84 src 10.84.0.19"]
    assert beginning(answered) == ["lte"]
    assert quick(answered, dsl=10) == ["ip route del 10.84.0.1/32 dev tb2 metric 0 proto 84 src 10.84.0.19"]
    assert beginning(answered) == ["dsl"]


def test_answers_of_long_ago_say_nothing_of_how_quick_a_link_is(answered: Script) -> None:
    quick(answered, dsl=80, lte=20)
    quick(answered, lte=200)
    assert beginning(answered) == ["dsl"]


def test_a_link_that_failed_has_to_show_again_that_it_is_quick(answered: Script) -> None:
    quick(answered, dsl=80, lte=20)
    answered.reconciler.health.record("lte", None)
    answered.answered("lte")
    assert beginning(answered) == ["dsl"]
    quick(answered, lte=20)
    assert beginning(answered) == ["lte"]


def test_the_quickest_stays_when_the_first_link_comes_back_of_which_nothing_is_known(answered: Script) -> None:
    quick(answered, dsl=80, lte=20)
    answered.now(LTE)
    answered.now(DSL, LTE)
    assert beginning(answered) == ["lte"]


def test_an_overflow_link_on_standby_begins_no_session() -> None:
    script = Script()
    script.reconciler.change_settings(settings(OVERFLOW + text(FIRST)))
    script.now(DSL, LTE)
    script.answered("dsl", "lte")
    assert script.reconciler.overflow.standby == {"lte"}
    quick(script, dsl=80, lte=20)
    assert beginning(script) == ["dsl"]


def test_without_tunnels_no_link_is_said_to_begin_sessions() -> None:
    reconciler = Reconciler(settings(), NOTHING_OWNED)
    reconciler.reconcile(house(DSL, LTE), 0, 0)
    assert [link["begins_sessions"] for link in api.status(reconciler, 0, 0)["wan"]] == [False, False]


def links(text: str) -> list[Link]:
    """By rank, as the daemon has them."""
    made = settings(text)
    return [Link(name, made.wan[name], list(made.wan).index(name), rank) for rank, name in enumerate(made.by_rank)]


EQUALS = links('[wan.dsl]\ninterface = "a"\n[wan.lte]\ninterface = "b"\n[wan.cable]\ninterface = "c"')


RATES = """
[wan.dsl]
interface = "a"
download = "10mbit"
[wan.lte]
interface = "b"
download = "100mbit"
"""
RATED = links(RATES)
RATED_IN_PART = links(RATES.replace('download = "10mbit"', ""))


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


@pytest.mark.parametrize(
    ("working", "dsl", "lte", "found"),
    [
        pytest.param(RATED, 20, 24, "lte", id="the faster one though it answers a little later"),
        pytest.param(RATED, 20, 80, "dsl", id="the one that answers much sooner though it is slower"),
        pytest.param(RATED_IN_PART, 20, 24, "dsl", id="a rate of one alone says nothing"),
    ],
)
def test_rates_count_where_all_are_known(working: Sequence[Link], dsl: float, lte: float, found: str) -> None:
    assert quickest(working, {"dsl": [dsl / 1000] * 3, "lte": [lte / 1000] * 3}, None) == found


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
