"""When the tunnels go back to an earlier gateway."""

from router.scout import Scout
from tests.unit.router.house import settings
from tributary.settings.probing import Probe
from tributary.wireguard.tunnels import Tunnels


def scout(return_after: str = "60s") -> Scout:
    tunnels = settings(f'[wan.dsl]\ninterface = "eth0"\n[tunnels]\nreturn_after = "{return_after}"').tunnels
    assert isinstance(tunnels, Tunnels)
    return Scout(Probe(), tunnels)


def test_it_is_asked_as_often_as_links_are() -> None:
    made = scout()
    assert made.begin(100.0) and not made.begin(109.9) and made.begin(110.0)


def test_an_earlier_gateway_must_answer_without_a_gap() -> None:
    made = scout()
    assert not made.is_steady(0.0)
    made.told(True, 1, 100.0)
    made.told(True, 1, 150.0)
    made.told(False, 1, 155.0)
    assert not made.is_steady(170.0)
    made.told(True, 1, 180.0)
    assert not made.is_steady(239.0) and made.is_steady(240.0)


def test_one_that_fails_soon_after_a_return_must_answer_for_longer_the_next_time() -> None:
    made = scout()
    needed = []
    for number in range(6):
        made.left(1000.0 * number + 500.0)
        needed.append(made.needed)
        made.returned(1000.0 * number + 900.0)
    assert needed == [60.0, 120.0, 240.0, 480.0, 960.0, 960.0]
    made.left(20000.0)
    assert made.needed == 60.0


def test_when_the_first_stays_silent_the_second_is_asked_while_the_third_is_used() -> None:
    made = scout()
    for _ in range(3):
        assert made.place == 0
        made.told(False, 2, 100.0)
    assert made.place == 1 and made.begin(100.0)
    made.told(True, 2, 101.0)
    assert made.is_steady(161.0) and made.place == 1
    for _ in range(3):
        made.told(False, 2, 170.0)
    assert made.place == 0


def test_what_the_last_one_answered_does_not_count_for_the_next() -> None:
    made = scout()
    made.told(True, 1, 100.0)
    made.returned(200.0)
    assert not made.is_steady(300.0)
