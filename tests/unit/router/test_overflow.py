"""When overflow links are used, as scripts: what each link carries second by second, and which links wait."""

from collections import Counter

import pytest

from router.links.overflow import Candidates, Overflow, Rates
from tributary.kernel.state import Octets

MBIT = 10**6 // 8


class Script:
    """Links dsl and lte, of which lte overflows; or more of them."""

    def __init__(self, *waiting: str, told: dict[str, Rates] | None = None) -> None:
        self.candidates, self.capacities = Candidates(("dsl",), waiting or ("lte",)), told or {}
        self.overflow = Overflow()
        self.overflow.set_candidates(self.candidates)
        self.now = 1000.0
        self.received: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.carry(1)

    def carry(self, seconds: int, up: float = 0, **down: float) -> set[str]:
        """Who waits after so many seconds with so many Mbit/s by each link; ``up`` is dsl's upload."""
        for _ in range(seconds):
            self.now += 1
            self.received.update({name: int(rate * MBIT) for name, rate in down.items()})
            self.sent["dsl"] += int(up * MBIT)
            names = ("dsl", *self.candidates.standby)
            counts = {name: Octets(self.received[name], self.sent[name]) for name in names}
            self.overflow.count(counts, self.capacities, self.now)
        return self.standby

    @property
    def standby(self) -> set[str]:
        return set(self.overflow.standby)


TOLD = {"dsl": Rates(download=50e6, upload=10e6)}


@pytest.fixture
def script() -> Script:
    return Script(told=TOLD)


def test_it_waits_while_nothing_is_carried() -> None:
    script = Script()
    assert script.carry(100, dsl=0.001) == {"lte"}


def test_a_link_of_a_known_rate_is_full_at_85_percent_for_two_seconds(script: Script) -> None:
    assert script.carry(60, dsl=42) == {"lte"}
    assert [script.carry(1, dsl=rate) for rate in (43, 40, 43)] == [{"lte"}] * 3
    assert script.carry(1, dsl=43) == set()


def test_it_goes_back_when_all_has_fitted_without_it_for_ten_seconds_and_not_before(script: Script) -> None:
    script.carry(2, dsl=48)
    script.carry(30, dsl=48, lte=20)
    script.carry(9, dsl=20, lte=10)
    script.carry(1, dsl=30, lte=10)
    assert script.carry(9, dsl=20, lte=10) == set()
    assert script.carry(1, dsl=20, lte=10) == {"lte"}


def test_between_full_and_fitting_it_stays_as_it_is(script: Script) -> None:
    assert script.carry(100, dsl=40) == {"lte"}
    script.carry(2, dsl=48)
    assert script.carry(100, dsl=30, lte=10) == set()


def test_a_link_that_changes_is_full_by_what_it_can_carry_now(script: Script) -> None:
    assert script.carry(60, dsl=20) == {"lte"}
    script.capacities = {"dsl": Rates(download=22e6, upload=10e6)}
    assert script.carry(2, dsl=20) == set()
    assert script.carry(60, dsl=20, lte=5) == set()
    script.capacities = TOLD
    assert script.carry(10, dsl=20, lte=5) == {"lte"}


def test_an_upload_fills_it_as_a_download_does(script: Script) -> None:
    assert script.carry(2, up=9, dsl=1) == set()


def test_a_second_one_is_used_when_the_first_is_full_too_and_goes_back_first() -> None:
    script = Script("lte", "sat", told=TOLD | {"lte": Rates(download=20e6, upload=5e6)})
    assert script.carry(2, dsl=48) == {"sat"}
    assert script.carry(2, dsl=48, lte=18) == set()
    assert script.carry(10, dsl=35, lte=10, sat=2) == {"sat"}
    assert script.carry(10, dsl=20) == {"lte", "sat"}


def test_without_a_rate_it_is_tried_and_stays_if_more_is_carried() -> None:
    script = Script()
    assert script.carry(2, dsl=30) == set()
    assert script.carry(60, dsl=30, lte=15) == set()
    assert script.carry(10, dsl=10, lte=5) == {"lte"}


def test_a_slow_server_fills_no_link_it_is_tried_once_and_then_ever_less() -> None:
    script = Script()
    assert script.carry(2, dsl=5) == set()
    assert script.carry(5, dsl=3, lte=2) == {"lte"}
    tried = 0
    for _ in range(3600):
        before = script.standby
        tried += before > script.carry(1, **({"dsl": 5} if before else {"dsl": 3, "lte": 2}))
    assert 3 <= tried <= 6


@pytest.mark.parametrize(("seen", "seconds", "rate", "waits"), [(5, 2, 30, set()), (50, 300, 20, {"lte"})])
def test_a_trial_in_vain_puts_one_off_unless_much_more_is_carried(
    seen: float, seconds: int, rate: float, waits: set[str]
) -> None:
    """What was seen lately is what a link can carry."""
    script = Script()
    script.carry(2, dsl=seen)
    assert script.carry(5, dsl=seen) == {"lte"}
    assert script.carry(seconds, dsl=rate) == waits


def test_when_a_link_before_it_comes_or_goes_it_is_asked_anew_whether_it_is_needed(script: Script) -> None:
    script.carry(2, dsl=48)
    script.overflow.set_candidates(script.candidates)
    assert script.standby == set()
    script.overflow.set_candidates(Candidates(("dsl", "cable"), ("lte",)))
    assert script.standby == {"lte"}


def test_an_interface_that_counts_anew_is_not_full(script: Script) -> None:
    script.carry(10, dsl=20)
    script.received.clear()
    assert script.carry(1) == {"lte"}
