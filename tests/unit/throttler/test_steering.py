from collections import Counter, deque
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.throttler.steered import (
    FAST,
    MEGABYTE,
    SLOW,
    THIRD,
    Rates,
    World,
    adding,
    knowing,
    limited,
    little,
    named,
    stalling,
)
from throttler.policy.quotas import SECOND
from throttler.service.status import NOT_STEERED
from throttler.steering.decider import Change, Decider, Kind
from throttler.steering.learned import KEPT, MOST, ClientPath, Learned, client_path
from throttler.steering.steerer import Steerer
from tributary.mptcp.four_tuple import FourTuple
from tributary.mptcp.sockets import Traffic


def test_at_the_end_everything_is_used_again_and_before_the_first_reading_nothing_is_steered() -> None:
    assert Steerer(named).status == NOT_STEERED
    world = World(stalling)
    world.read(12)
    assert world.decider.release() == [Change(7, SLOW, backup=False)]
    assert world.decider.release() == []


def test_a_session_that_this_host_has_begun_is_not_steered_also_without_its_first_subflow() -> None:
    """Its backups are its own endpoints'."""
    decider, backup = Decider(named, is_dry=False), Traffic(0, 0, 0, token=7, made_backup=True)
    assert decider.decide({FAST: Traffic(0, 0, 0, token=7, is_own=True), SLOW: backup}, SECOND) == []
    assert decider.decide({SLOW: backup}, 2 * SECOND) == []
    assert decider.decide({}, 3 * SECOND) == []
    assert decider.decide({SLOW: backup}, 4 * SECOND) == [Change(7, SLOW, backup=False)]


def test_a_path_for_which_the_better_one_waits_becomes_a_backup_and_stays_one_as_it_helps() -> None:
    world = World(stalling)
    assert world.read(3) == []
    assert world.read() == [Change(7, SLOW, backup=True)]
    assert world.read(50) == []
    assert world.decider.counts == {Kind.TRIAL: 1, Kind.KEPT: 1}
    assert world.decider.steered == 1
    assert world.decider.explain(7) == "48.0 Mbit/s without wireless (10.0.2.2), 24.8 Mbit/s with: a backup"
    assert world.decider.explain(7, "none") == "48.0 Mbit/s without wireless (hidden), 24.8 Mbit/s with: a backup"


def test_paths_that_add_up_are_all_used() -> None:
    world = World(adding)
    assert world.read(200) == []
    assert world.decider.explain(7) == "nothing was decided yet"
    assert world.decider.explain(8) is None


def test_a_trial_that_brings_nothing_is_undone_within_ten_seconds_and_each_pause_is_longer() -> None:
    world = World(limited)
    world.read(600)
    begun = [when for when, change in world.changes if change.backup]
    undone = [when for when, change in world.changes if not change.backup]
    assert len(begun) == len(undone) >= 4
    assert all(0 < end - begin <= 10 for begin, end in zip(begun, undone, strict=True))
    pauses = [later - end for end, later in zip(undone, begun[1:], strict=False)]
    assert pauses == sorted(pauses)
    assert pauses[-1] >= 4 * pauses[0]
    assert world.decider.counts[Kind.UNDONE] == len(undone)


def test_a_backup_that_is_no_better_stays_one_and_is_tried_ever_more_seldom() -> None:
    world = World(stalling)
    world.read(1200)
    tried = [when for when, change in world.changes if not change.backup]
    pauses = [later - earlier for earlier, later in pairwise(tried)]
    assert world.made == {SLOW}
    assert len(tried) == world.decider.counts[Kind.BACK] >= 3
    # Each twice the one before, and the seconds of a trial; the first is 30 s.
    assert 60 <= pauses[0] < 75
    assert all(1.7 < later / earlier < 2.1 for earlier, later in pairwise(pauses))


def test_the_next_session_has_it_as_backup_from_its_join_on_and_finds_out_soon_whether_that_is_wrong() -> None:
    first = World(stalling)
    first.read(12)
    second = World(stalling, first.decider, token=8, now=first.now)
    assert second.read() == [Change(8, SLOW, backup=True)]
    third = World(adding, first.decider, token=9, now=second.now + 30 * SECOND)
    assert third.read() == [Change(9, SLOW, backup=True)]
    assert third.read(20) == [Change(9, SLOW, backup=False)]
    assert third.read(100) == []


def test_what_was_found_just_now_is_not_tried_again_by_the_next_session() -> None:
    first = World(stalling)
    first.read(12)
    second = World(stalling, first.decider, token=8, now=first.now)
    assert second.read(50) == [Change(8, SLOW, backup=True)]
    assert second.read(10) == [Change(8, SLOW, backup=False), Change(8, SLOW, backup=True)]
    third = World(stalling, first.decider, token=9, now=second.now)
    assert third.read(50) == [Change(9, SLOW, backup=True)]


def test_a_backup_that_is_tried_again_is_one_again_as_soon_as_the_best_path_waits() -> None:
    world = World(stalling)
    world.read(150)
    (used, again) = [when for when, change in world.changes[1:]]
    assert again - used <= 1.5


def test_what_was_learned_is_forgotten_after_an_hour_and_never_about_one_and_the_same_path() -> None:
    learned = Learned()
    bad, good = client_path("lte", "192.0.2.1"), client_path("dsl", "2001:db8::1")
    assert (bad.prefix, good.prefix) == ("192.0.2.0/24", "2001:db8::/64")
    learned.learn(bad, good, 0)
    learned.learn(bad, bad, 0)
    assert len(learned) == 1
    assert learned.worse_since(bad, [good], KEPT - 1) == 0
    assert learned.worse_since(bad, [good], KEPT) is None
    assert learned.worse_since(good, [bad], 0) is None
    for number in range(MOST + 5):
        learned.learn(ClientPath("lte", str(number)), good, 0)
    assert len(learned) == MOST


def test_a_session_of_which_the_kernel_takes_no_decision_is_asked_for_once() -> None:
    world = World(stalling, obeys=False)
    assert len(world.read(300)) == 1
    assert world.decider.counts == {Kind.TRIAL: 1, Kind.REFUSED: 1}
    assert world.decider.steered == 0
    assert "pm_type" in str(world.decider.explain(7))


def test_a_dry_decider_counts_trials_and_what_needs_none_and_changes_nothing() -> None:
    world = World(stalling, Decider(named, is_dry=True), made={THIRD})
    assert world.read(100) == []
    assert world.decider.counts[Kind.TRIAL] >= 2
    assert "would become a backup" in str(world.decider.explain(7))
    world = World(little, Decider(named, is_dry=True))
    assert world.read(100) == []
    assert world.decider.counts[Kind.UNTRIED] >= 2
    assert str(world.decider.explain(7)).endswith("; wireless (10.0.2.2) would become a backup")


def test_a_slower_path_that_brings_little_needs_no_trial_and_is_a_backup_in_the_next_session_too() -> None:
    world = World(little)
    assert world.read(4) == []
    assert world.read() == [Change(7, SLOW, backup=True)]
    assert world.decider.counts == {Kind.UNTRIED: 1}
    reason = "1.6 Mbit/s of 49.6 Mbit/s came by what is slower and always sends: wireless (10.0.2.2) is a backup"
    assert world.decider.explain(7) == reason
    # It is tried again after a pause, as others are.
    world.read(130)
    assert world.decider.counts == {Kind.UNTRIED: 1, Kind.RETRY: 1, Kind.BACK: 1}
    following = World(little, world.decider, token=8, now=world.now)
    assert following.read() == [Change(8, SLOW, backup=True)]


def test_of_several_backups_each_is_tried_again_alone() -> None:
    def model(used: frozenset[FourTuple]) -> Rates:
        rest = {name: (rate, 1.0) for name, rate in ((SLOW, 0.1), (THIRD, 2.0)) if name in used}
        return rest | {FAST: (3.0, 0.5) if SLOW in used else (6.0, 1.0)}

    world = World(model, names=(FAST, SLOW, THIRD))
    assert set(world.read(4)) == {Change(7, SLOW, backup=True), Change(7, THIRD, backup=True)}
    world.read(240)
    assert world.made == {SLOW}
    assert world.decider.counts == {Kind.TRIAL: 1, Kind.KEPT: 1, Kind.RETRY: 2, Kind.BACK: 1, Kind.FREED: 1}


def test_where_all_waits_for_a_path_that_path_is_a_backup_without_a_trial() -> None:
    stuck = False

    def model(used: frozenset[FourTuple]) -> Rates:
        return {FAST: (0.0, 0.0), SLOW: (0.2, 1.0)} if stuck else adding(used)

    world = World(model)
    world.read(10)
    stuck = True
    assert world.read(2) == []
    assert world.read() == [Change(7, SLOW, backup=True)]
    assert world.decider.counts == {Kind.UNTRIED: 1}
    assert len(world.decider.learned) == 1
    reason = "wired (10.0.1.2) has shown 48.0 Mbit/s, and is idle 100 % of the time or more while others send"
    assert world.decider.explain(7) == f"{reason}: 1.6 Mbit/s in all: wireless (10.0.2.2) is a backup"
    # What it has under way may take it long: that is no reason to use it again.
    assert world.read(20) == []


def test_a_session_that_pauses_while_a_backup_is_tried_again_has_shown_nothing() -> None:
    world = World(stalling)
    world.read(12)
    while not any(not change.backup for change in world.read()):
        pass
    world.model = lambda _: {}
    assert world.read(10) == [Change(7, SLOW, backup=True)]
    assert world.decider.learned.worse_since(named(7, SLOW), [named(7, FAST)], world.now) == 104 * SECOND
    again = world.now
    world.model = lambda used: {FAST: (0.5, 1.0)} | ({SLOW: (0.1, 1.0)} if SLOW in used else {})
    assert world.read(20) == [Change(7, SLOW, backup=False)]
    assert world.now - again == 10 * SECOND
    assert world.decider.counts[Kind.WORSE] == 1


def test_a_subflow_of_another_session_with_the_same_addresses_and_ports_is_not_measured_against_it() -> None:
    first = World(adding)
    first.read(10)
    second = World(adding, first.decider, token=8, now=first.now)
    assert second.read() == []
    assert second.decider._sessions[8].samples == deque()


def test_a_path_whose_trial_was_undone_stays_in_use_when_the_better_one_has_brought_as_much() -> None:
    world = knowing(limited, acked=Counter({SLOW: 20 * MEGABYTE}))
    world.read(40)
    assert world.acked[FAST] > world.acked[SLOW]
    assert world.decider.counts[Kind.UNDONE] >= 1
    assert Kind.LEARNED not in world.decider.counts


def test_what_is_found_to_be_otherwise_is_forgotten_beside_each_path() -> None:
    def paths(_token: int, name: FourTuple) -> ClientPath:
        return client_path("any", name.remote)

    learned = Learned()
    for better in (FAST, THIRD):
        learned.learn(paths(7, SLOW), paths(7, better), 0)
    world = World(adding, Decider(paths, is_dry=False, learned=learned), names=(FAST, SLOW, THIRD))
    assert world.read(40) == [Change(7, SLOW, backup=True), Change(7, SLOW, backup=False)]
    assert len(learned) == 0


def test_of_two_paths_the_one_found_last_is_the_worse() -> None:
    learned = Learned()
    bad, good = client_path("lte", "192.0.2.1"), client_path("dsl", "192.0.2.1")
    learned.learn(good, bad, 0)
    learned.learn(bad, good, 1)
    assert learned.worse_since(bad, [good], 2) == 1
    assert learned.worse_since(good, [bad], 2) is None


def test_a_session_that_the_kernel_does_not_steer_is_not_asked_for_by_what_is_learned() -> None:
    world = World(stalling, obeys=False)
    world.read(10)
    world.decider.learned.learn(client_path("wireless", THIRD.remote), named(7, FAST), world.now)
    world.names = (FAST, SLOW, THIRD)
    assert world.read(10) == []


_RATE = st.tuples(st.floats(0, 10), st.sampled_from([0.0, 0.5, 0.95, 1.0]))
_STEP = st.tuples(_RATE, _RATE, _RATE, st.sets(st.sampled_from([FAST, SLOW, THIRD])), st.integers(1, 20))


@settings(deadline=None)
@given(st.lists(_STEP, min_size=1, max_size=20))
def test_whatever_is_read_one_path_stays_in_use_and_changes_are_few(
    steps: list[tuple[tuple[float, float], tuple[float, float], tuple[float, float], set[FourTuple], int]],
) -> None:
    world = World(adding, names=(FAST, SLOW, THIRD))
    for first, second, third, by_client, readings in steps:
        rates = {FAST: first, SLOW: second, THIRD: third}
        world.model, world.by_client = lambda _, rates=rates: rates, by_client  # type: ignore[misc]
        for _ in range(readings):
            world.read()
            assert by_client >= set(world.names) or not set(world.names) <= world.made | by_client
    for begin, _ in world.changes:
        minute = Counter(change.subflow for when, change in world.changes if begin <= when < begin + 60)
        assert max(minute.values()) <= 12
