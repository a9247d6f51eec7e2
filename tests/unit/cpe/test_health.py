"""Which links are taken out, by what their probes say."""

from cpe.health import Health
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


def test_one_answer_between_begins_the_count_anew_and_one_answer_brings_a_link_back() -> None:
    health = both()
    health.told("lte", 0.05)
    for rtt in (None, None, 0.01, None, None):
        health.told("dsl", rtt)
    assert not health.dead
    health.told("dsl", None)
    assert health.dead
    health.told("dsl", 0.01)
    assert not health.dead
    assert health.records["dsl"].rtt == 0.01


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
