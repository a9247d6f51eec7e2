"""Which links are taken out, by what their probes say."""

import random

import pytest

from router.health import MOST_HOLD, SOON, Health
from tributary.settings.probing import Probe
from tributary.settings.units import Duration

PROBE = Probe(interval=Duration.parse("10s"), timeout=Duration.parse("2s"), failures=3)


def both() -> Health:
    health = Health(PROBE)
    health.keep(["dsl", "lte"])
    return health


def test_a_link_is_taken_out_after_so_many_failures_in_a_row_while_another_answers() -> None:
    health = both()
    health.told("lte", 0.05)
    for _ in range(2):
        health.told("dsl", None)
        assert not health.dead
    health.told("dsl", None)
    assert health.dead == {"dsl"}


def test_one_answer_between_begins_the_count_anew_and_three_in_a_row_bring_a_link_back() -> None:
    health = both()
    health.told("lte", 0.05)
    for rtt in (None, None, 0.01, None, None):
        health.told("dsl", rtt)
    assert not health.dead
    health.told("dsl", None)
    assert health.dead
    for rtt in (0.01, 0.01, None, 0.01, 0.02):
        health.told("dsl", rtt)
        assert health.dead == {"dsl"}
    health.told("dsl", 0.03)
    assert not health.dead
    assert health.records["dsl"].rtt == 0.03


def test_a_link_that_begins_to_answer_is_asked_again_soon() -> None:
    health = both()
    health.begin(0)
    health.told("lte", 0.05)
    for _ in range(3):
        health.told("dsl", None)
    assert "dsl" in health.begin(20)
    health.told("dsl", 0.01)
    assert health.begin(20.4) == [] and "dsl" in health.begin(20.5)


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
            dead = health.dead
            for each in [each for each in told if each[0] <= self.now]:
                told.remove(each)
                health.told(*each[1:])
            under_way = {name for _, name, _ in told}
            for name in health.begin(self.now):
                if name not in under_way:
                    is_lost = name != good and self.random.random() < self.lost
                    told.append((self.now + (2.0 if is_lost else 0.05), name, None if is_lost else 0.05))
            if health.dead != dead:
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
    assert day.health.dead == {"lte"}
    day.lost = 0.0
    assert day.run(DAY + MOST_HOLD + 60) == 1 and not day.health.dead
    day.run(DAY + MOST_HOLD + 60 + SOON)
    day.lost = 1.0
    began = day.now
    day.run(began + 60)
    assert day.health.dead == {"lte"} and day.health.needed("lte") == 0
    day.lost = 0.0
    day.run(day.now + 30)
    assert not day.health.dead


def test_a_link_that_is_held_is_used_at_once_when_no_other_is_left() -> None:
    day = Day(0.5)
    day.run(DAY)
    day.lost = 0.0
    day.run(DAY + 60)
    assert day.health.dead == {"lte"} and day.health.records["lte"].answers
    unplugged = day.health
    unplugged.keep(["lte"])
    assert not unplugged.dead


def test_a_link_that_is_held_takes_the_place_of_one_that_falls_silent() -> None:
    day = Day(0.5)
    day.run(DAY)
    day.lost = 0.0
    day.run(DAY + 60)
    assert day.health.dead == {"lte"}
    day.lost = 1.0
    assert day.run(DAY + 120, good="lte") and day.health.dead == {"dsl"}


def test_a_link_that_is_held_is_no_reason_to_shun_the_one_that_is_used() -> None:
    day = Day(0.5)
    day.run(DAY)
    day.lost = 0.0
    day.run(DAY + 60)
    assert day.health.dead == {"lte"}
    day.health.doubt()
    day.health.told("lte", 0.05)
    day.health.told("dsl", None)
    assert not day.health.shunned


def test_a_metered_link_is_asked_less_often_until_it_fails() -> None:
    health = Health(PROBE)
    health.keep(["dsl", "lte"], metered=["lte"])
    assert health.begin(0) == ["dsl", "lte"]
    health.told("dsl", 0.01)
    health.told("lte", 0.05)
    assert [time for time in range(1, 121) if "lte" in health.begin(time)] == [60, 120]
    health.told("lte", None)
    assert health.begin(122) == ["lte"]
    health.doubt()
    assert health.begin(123) == ["dsl", "lte"]


def test_an_answer_from_before_a_link_failed_says_nothing_so_others_are_asked_at_once() -> None:
    health = Health(PROBE)
    health.keep(["dsl", "lte"], metered=["lte"])
    health.begin(0)
    for name in ("dsl", "lte"):
        health.told(name, 0.01)
    # The target goes away: lte is not due before 60.
    assert health.begin(20) == ["dsl"]
    health.told("dsl", None)
    assert health.begin(21) == ["lte"]
    for time in (23, 25):
        health.told("lte", None)
        health.begin(time)
        health.told("dsl", None)
    assert not health.dead
    health.told("lte", None)
    assert health.is_silent and not health.answers


def test_an_answer_from_after_a_link_failed_shows_that_it_is_the_link() -> None:
    health = Health(PROBE)
    health.keep(["dsl", "lte"], metered=["lte"])
    health.begin(0)
    health.told("lte", 0.05)
    health.told("dsl", 0.01)
    for time in (20, 22, 24):
        assert "dsl" in health.begin(time)
        health.told("dsl", None)
        if "lte" in health.begin(time + 1):
            health.told("lte", 0.05)
    assert health.dead == {"dsl"}


def test_when_no_link_answers_none_is_taken_out() -> None:
    health = both()
    health.told("lte", 0.05)
    for _ in range(9):
        health.told("lte", None)
        health.told("dsl", None)
    assert not health.dead


def test_the_first_link_to_answer_again_shows_that_the_other_is_dead() -> None:
    health = both()
    for _ in range(9):
        health.told("lte", None)
        health.told("dsl", None)
    health.told("lte", 0.05)
    assert health.dead == {"dsl"}


def test_a_link_that_was_out_stays_out_while_the_target_is_away() -> None:
    health = both()
    health.told("lte", 0.05)
    for _ in range(3):
        health.told("dsl", None)
    for _ in range(9):
        health.told("lte", None)
    assert health.dead == {"dsl"}


def test_probes_are_due_at_once_then_each_interval() -> None:
    health = both()
    assert health.begin(100.0) == ["dsl", "lte"]
    assert health.begin(100.0) == []
    assert health.next_due == 110.0
    assert health.begin(110.0) == ["dsl", "lte"]


def test_after_a_failure_the_next_probe_is_due_when_this_ones_time_is_over_but_a_dead_link_can_wait() -> None:
    health = both()
    health.begin(100.0)
    health.told("lte", 0.05)
    health.told("dsl", None)
    assert health.next_due == 102.0
    assert health.begin(102.0) == ["dsl"]
    health.told("dsl", None)
    health.told("dsl", None)
    assert health.dead == {"dsl"}
    assert health.begin(109.0) == []
    assert health.begin(110.0) == ["lte"]
    assert health.begin(112.0) == ["dsl"]


def test_a_link_that_was_down_begins_anew_and_an_answer_for_one_that_is_gone_is_nothing() -> None:
    health = both()
    health.told("lte", 0.05)
    for _ in range(3):
        health.told("dsl", None)
    health.keep(["lte"])
    health.told("dsl", None)
    assert not health.dead
    health.keep(["dsl", "lte"])
    assert not health.dead
    assert health.records["lte"].rtt == 0.05


def test_nothing_is_due_without_links() -> None:
    assert Health(PROBE).next_due is None
