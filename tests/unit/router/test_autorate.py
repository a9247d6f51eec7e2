"""Rates that follow a link: against a link of numbers, whose queue fills when more is sent than it carries."""

from dataclasses import dataclass, field
from statistics import median

import pytest

from router.shaping.autorate import MIN_SHARE, SLACK, AutoRate, Direction
from tributary.kernel.state import Octets

MBIT = 10**6
STEP = 0.2


@dataclass
class Path:
    """A link whose download carries ``capacity`` bits a second, with a queue of up to a second, and is always full."""

    auto_rate: AutoRate
    capacity: float
    idle: float = 0.05
    now: float = 0.0
    queue: float = 0.0
    received: float = 0.0
    worst: list[float] = field(default_factory=list)

    def run(self, seconds: float, load: float = 1.0) -> float:
        """The rate after so long; ``load`` is the part of it that somebody asks for."""
        self.worst = []
        for _ in range(round(seconds / STEP)):
            self.now += STEP
            offered = load * self.auto_rate.rates[Direction.DOWN]
            waiting = self.queue + (offered - self.capacity) * STEP
            self.received += min(offered * STEP + self.queue, self.capacity * STEP) / 8
            self.queue = min(max(waiting, 0.0), self.capacity)
            self.auto_rate.count(Octets(int(self.received), 0), self.now)
            rtt = self.idle + self.queue / self.capacity
            self.auto_rate.on_rtt(rtt, self.now)
            self.worst.append(rtt)
        return self.rate

    @property
    def rate(self) -> float:
        return self.auto_rate.rates[Direction.DOWN] / MBIT


@pytest.fixture
def path() -> Path:
    found = Path(AutoRate(50 * MBIT, None), 100.0 * MBIT)
    found.run(3, load=0)
    return found


def test_a_link_that_carries_all_keeps_its_rate(path: Path) -> None:
    assert path.run(20) == 50 and max(path.worst) == path.idle


def test_a_link_that_gets_slower_is_followed_within_seconds_and_its_delay_stays_low(path: Path) -> None:
    path.capacity = 10.0 * MBIT
    path.run(8)
    assert 6 < path.run(60) < 12
    assert max(path.worst) < path.idle + 3 * SLACK
    assert median(path.worst) < path.idle + SLACK


def test_a_link_that_gets_faster_is_followed_in_half_a_minute(path: Path) -> None:
    path.capacity = 10.0 * MBIT
    path.run(20)
    path.capacity = 40.0 * MBIT
    assert 25 < path.run(30) < 45


def test_an_idle_link_is_left_alone_however_late_its_answers(path: Path) -> None:
    path.idle = 0.4
    assert path.run(20, load=0) == 50
    assert path.run(20) == 50, "it has learnt meanwhile how long an answer takes"


def test_a_direction_that_is_not_used_up_is_not_made_faster(path: Path) -> None:
    path.capacity = 10.0 * MBIT
    before = path.run(20)
    path.capacity = 100.0 * MBIT
    assert path.run(20, load=0.5) == before


def test_it_never_gets_slower_than_a_tenth_and_then_takes_the_delay_for_the_path_s_own(path: Path) -> None:
    path.idle = 0.3
    assert path.run(10) == 50 * MIN_SHARE
    assert path.run(40) > 10


def test_probes_without_an_answer_are_late(path: Path) -> None:
    for _ in range(4):
        path.now += STEP
        path.received += 10 * MBIT * STEP / 8
        path.auto_rate.count(Octets(int(path.received), 0), path.now)
        path.auto_rate.on_rtt(None, path.now)
    assert path.rate < 50


def test_what_silence_has_slowed_is_undone_and_an_interface_that_was_replaced_counts_from_nothing(path: Path) -> None:
    path.auto_rate.rates[Direction.DOWN] = 5 * MBIT
    assert path.auto_rate.reset() and path.rate == 50
    assert not path.auto_rate.reset()
    auto_rate = AutoRate(50 * MBIT, None)
    for time, received in ((0.0, 10**9), (0.2, 10**9 + 10**6), (0.4, 5), (0.6, 5)):
        auto_rate.count(Octets(received, 0), time)
    assert auto_rate.throughput(Direction.DOWN) == 0


def test_the_direction_that_carries_more_is_made_slower() -> None:
    auto_rate = AutoRate(50 * MBIT, 10 * MBIT)
    auto_rate.on_rtt(0.05, 0.0)
    for operation in range(1, 20):
        now = operation * STEP
        auto_rate.count(Octets(int(now * 0.5 * MBIT), int(now * 1.1 * MBIT)), now)
        auto_rate.on_rtt(0.5, now)
    assert auto_rate.rates[Direction.DOWN] == 50 * MBIT
    assert auto_rate.rates[Direction.UP] < 8 * MBIT
