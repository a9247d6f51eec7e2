import pytest

from router.tunnels.gateways import FailbackMonitor
from tests.unit.router.house import SETTINGS, settings
from tributary.settings.probing import Probe


@pytest.fixture
def made() -> FailbackMonitor:
    return FailbackMonitor(Probe(), settings(SETTINGS + '[tunnels]\nreturn_after = "60s"').tunnels)


def test_it_is_asked_as_often_as_links_are(made: FailbackMonitor) -> None:
    assert made.start_due(100.0) and not made.start_due(109.9) and made.start_due(110.0)


def test_an_earlier_gateway_must_answer_without_a_gap(made: FailbackMonitor) -> None:
    assert not made.is_stable(0.0)
    made.record(True, 1, 100.0)
    made.record(True, 1, 150.0)
    made.record(False, 1, 155.0)
    assert not made.is_stable(170.0)
    made.record(True, 1, 180.0)
    assert not made.is_stable(239.0) and made.is_stable(240.0)


def test_one_that_fails_soon_after_a_return_must_answer_for_longer_the_next_time(made: FailbackMonitor) -> None:
    needed = []
    for number in range(6):
        made.on_fail_over(1000.0 * number + 500.0)
        needed.append(made.required)
        made.on_fail_back(1000.0 * number + 900.0)
    assert needed == [60.0, 120.0, 240.0, 480.0, 960.0, 960.0]
    made.on_fail_over(20000.0)
    assert made.required == 60.0


def test_when_the_first_stays_silent_the_second_is_asked_while_the_third_is_used(made: FailbackMonitor) -> None:
    for _ in range(3):
        assert made.index == 0
        made.record(False, 2, 100.0)
    assert made.index == 1 and made.start_due(100.0)
    made.record(True, 2, 101.0)
    assert made.is_stable(161.0) and made.index == 1
    for _ in range(3):
        made.record(False, 2, 170.0)
    assert made.index == 0


def test_what_the_last_one_answered_does_not_count_for_the_next(made: FailbackMonitor) -> None:
    made.record(True, 1, 100.0)
    made.on_fail_back(200.0)
    assert not made.is_stable(300.0)
