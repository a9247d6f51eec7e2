import random
import re

import pytest

from router.links.health import LATEST, MOST_HOLD, SOON, Health
from tributary.settings.probing import Probe
from tributary.settings.units import Duration

PROBE = Probe(interval=Duration.parse("10s"), timeout=Duration.parse("2s"), failures=3)


def both(*metered: str) -> Health:
    health = Health(PROBE)
    health.set_links(["dsl", "lte"], metered)
    return health


@pytest.fixture
def health() -> Health:
    return both()


def after(health: Health, probes: str) -> frozenset[str]:
    """The links that are taken out after these probes: ``lte+ dsl--`` is an answer by lte and two failures by dsl."""
    for link, outcomes in re.findall(r"(\w+)([+-]+)", probes):
        for outcome in outcomes:
            health.record(link, 0.05 if outcome == "+" else None)
    return health.down


def test_a_link_is_taken_out_after_so_many_failures_in_a_row_while_another_answers(health: Health) -> None:
    assert after(health, "lte+ dsl--") == set()
    assert after(health, "dsl-") == {"dsl"}


def test_one_answer_between_begins_the_count_anew_and_three_in_a_row_bring_a_link_back(health: Health) -> None:
    assert after(health, "lte+ dsl--+--") == set()
    assert after(health, "dsl-") == {"dsl"}
    assert [after(health, f"dsl{outcome}") for outcome in "++-++"] == [{"dsl"}] * 5
    health.record("dsl", 0.03)
    assert not health.down
    assert health.records["dsl"].rtt == 0.03


def test_a_link_that_begins_to_answer_is_asked_again_soon(health: Health) -> None:
    health.start_due(0)
    after(health, "lte+ dsl---")
    assert "dsl" in health.start_due(20)
    after(health, "dsl+")
    assert health.start_due(20.4) == [] and "dsl" in health.start_due(20.5)


class Day:
    """A day of probes with the usual settings, by the clock: a link that loses some beside one that loses none."""

    def __init__(self, lost: float, seed: int = 1) -> None:
        self.lost, self.random = lost, random.Random(seed)
        self.health = both()
        self.now, self.changes = 0.0, list[float]()

    def run(self, until: float, good: str | None = "dsl") -> int:
        """Returns how often the links' state changed; ``good`` is the one that loses none."""
        health, told = self.health, list[tuple[float, str, float | None]]()
        before = len(self.changes)
        while (due := health.next_due) is not None:
            self.now = min([max(due, self.now), *(at for at, _, _ in told)])
            if self.now > until:
                break
            dead = health.down
            for each in [each for each in told if each[0] <= self.now]:
                told.remove(each)
                health.record(*each[1:])
            under_way = {name for _, name, _ in told}
            for name in health.start_due(self.now):
                if name not in under_way:
                    is_lost = name != good and self.random.random() < self.lost
                    told.append((self.now + (2.0 if is_lost else 0.05), name, None if is_lost else 0.05))
            if health.down != dead:
                self.changes.append(self.now)
        return len(self.changes) - before


DAY = 86400.0


@pytest.mark.parametrize(("lost", "most"), [(0.0, 0), (0.1, 24), (0.3, 20), (0.5, 20)])
def test_a_link_that_loses_probes_does_not_come_and_go_all_day(lost: float, most: int) -> None:
    """30 % lost on one link, beside a good one: it went out or came back 442 times a day."""
    assert Day(lost).run(DAY) <= most


def test_a_link_that_is_well_again_comes_back_after_the_longest_hold_and_the_next_time_sooner() -> None:
    day = Day(0.5)
    day.run(DAY)
    assert day.health.down == {"lte"}
    day.lost = 0.0
    assert day.run(DAY + MOST_HOLD + 60) == 1 and not day.health.down
    day.run(DAY + MOST_HOLD + 60 + SOON)
    day.lost = 1.0
    began = day.now
    day.run(began + 60)
    assert day.health.down == {"lte"} and day.health.required("lte") == 0
    day.lost = 0.0
    day.run(day.now + 30)
    assert not day.health.down


@pytest.fixture
def held() -> Day:
    """For a minute lte has lost nothing any more, and it is still out."""
    day = Day(0.5)
    day.run(DAY)
    day.lost = 0.0
    day.run(DAY + 60)
    assert day.health.down == {"lte"} and day.health.records["lte"].answers
    return day


def test_a_link_that_is_held_is_used_at_once_when_no_other_is_left(held: Day) -> None:
    held.health.set_links(["lte"])
    assert not held.health.down


def test_a_link_that_is_held_takes_the_place_of_one_that_falls_silent(held: Day) -> None:
    held.lost = 1.0
    assert held.run(DAY + 120, good="lte") and held.health.down == {"dsl"}


def test_a_link_that_is_held_is_no_reason_to_shun_the_one_that_is_used(held: Day) -> None:
    held.health.recheck_all()
    after(held.health, "lte+ dsl-")
    assert not held.health.suspect


def test_a_metered_link_is_asked_less_often_until_it_fails() -> None:
    health = both("lte")
    assert health.start_due(0) == ["dsl", "lte"]
    after(health, "dsl+ lte+")
    assert [time for time in range(1, 121) if "lte" in health.start_due(time)] == [60, 120]
    after(health, "lte-")
    assert health.start_due(122) == ["lte"]
    health.recheck_all()
    assert health.start_due(123) == ["dsl", "lte"]


def test_an_answer_from_before_a_link_failed_says_nothing_so_others_are_asked_at_once() -> None:
    health = both("lte")
    health.start_due(0)
    after(health, "dsl+ lte+")
    # The target goes away: lte is not due before 60.
    assert health.start_due(20) == ["dsl"]
    after(health, "dsl-")
    assert health.start_due(21) == ["lte"]
    for time in (23, 25):
        after(health, "lte-")
        health.start_due(time)
        after(health, "dsl-")
    assert not health.down
    after(health, "lte-")
    assert health.is_silent and not health.answers


def test_an_answer_from_after_a_link_failed_shows_that_it_is_the_link() -> None:
    health = both("lte")
    health.start_due(0)
    after(health, "lte+ dsl+")
    for time in (20, 22, 24):
        assert "dsl" in health.start_due(time)
        after(health, "dsl-")
        if "lte" in health.start_due(time + 1):
            after(health, "lte+")
    assert health.down == {"dsl"}


@pytest.mark.parametrize(
    ("probes", "down"),
    [
        pytest.param("lte+" + 9 * "lte- dsl-", set(), id="none while no link answers"),
        pytest.param(9 * "lte- dsl-" + "lte+", {"dsl"}, id="the other when the first link answers again"),
        pytest.param("lte+ dsl--- lte---------", {"dsl"}, id="still one that was out when the target goes away"),
    ],
)
def test_a_dead_link_is_told_from_a_target_that_is_away(health: Health, probes: str, down: set[str]) -> None:
    assert after(health, probes) == down


def test_probes_are_due_at_once_then_each_interval(health: Health) -> None:
    assert health.start_due(100.0) == ["dsl", "lte"]
    assert health.start_due(100.0) == []
    assert health.next_due == 110.0
    assert health.start_due(110.0) == ["dsl", "lte"]


def test_after_a_failure_the_next_probe_is_due_when_this_one_is_over_and_a_dead_link_can_wait(health: Health) -> None:
    health.start_due(100.0)
    after(health, "lte+ dsl-")
    assert health.next_due == 102.0
    assert health.start_due(102.0) == ["dsl"]
    assert after(health, "dsl--") == {"dsl"}
    assert health.start_due(109.0) == []
    assert health.start_due(110.0) == ["lte"]
    assert health.start_due(112.0) == ["dsl"]


def test_a_link_that_was_down_begins_anew_and_an_answer_for_one_that_is_gone_is_nothing(health: Health) -> None:
    assert after(health, "lte+ dsl---") == {"dsl"}
    health.set_links(["lte"])
    assert after(health, "dsl-") == set()
    health.set_links(["dsl", "lte"])
    assert not health.down
    assert health.records["lte"].rtt == 0.05


def test_nothing_is_due_without_links() -> None:
    assert Health(PROBE).next_due is None


def test_the_loss_of_a_link_is_that_of_its_last_probes(health: Health) -> None:
    assert health.records["lte"].loss is None
    after(health, "lte+++-")
    assert health.records["lte"].loss == 0.25
    after(health, f"lte{'+' * (LATEST - 1)}")
    assert health.records["lte"].loss == 0.01
    after(health, "lte+")
    assert health.records["lte"].loss == 0


def test_a_link_that_is_only_too_slow_for_a_recheck_loses_nothing(health: Health) -> None:
    after(health, "lte+")
    health.recheck_all()
    after(health, "lte-")
    assert health.records["lte"].loss == 0
    after(health, "lte-")
    assert health.records["lte"].loss == 0.5
    health.recheck_all()
    after(health, "lte++")
    assert health.records["lte"].loss == 0.25


def test_the_loss_of_other_paths_is_forgotten(health: Health) -> None:
    after(health, "lte+-")
    health.forget_times()
    assert health.records["lte"].loss is None
    after(health, "lte+")
    assert health.records["lte"].loss == 0
