import pytest

from router import api
from router.state.owned import OwnershipRecord
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
    reconciler = Reconciler(settings(), OwnershipRecord())
    reconciler.reconcile(house(DSL, LTE), 0)
    assert [link["begins_sessions"] for link in api.status(reconciler, 0, 0)["wan"]] == [False, False]
