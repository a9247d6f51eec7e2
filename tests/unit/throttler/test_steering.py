from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from throttler.policy.quotas import SECOND
from throttler.service.status import NOT_STEERED
from throttler.steering.decider import Change, Decider, Kind, Readings
from throttler.steering.learned import KEPT, MOST, ClientPath, Learned, client_path
from throttler.steering.steerer import Steerer
from tributary.mptcp.four_tuple import FourTuple
from tributary.mptcp.sockets import Traffic

FAST, SLOW, THIRD = (FourTuple("10.0.0.1", 3128, f"10.0.{number}.2", 40000 + number) for number in (1, 2, 3))
HALF = SECOND // 2
MEGABYTE = 1_000_000

Rates = Mapping[FourTuple, tuple[float, float]]
"""Megabytes a second of each subflow, and the share of the time for which it sends."""
Model = Callable[[frozenset[FourTuple]], Rates]
"""What each subflow does, by those that are in use."""


def stalling(used: frozenset[FourTuple]) -> Rates:
    """The fast path waits for the slow one, unless that is a backup."""
    return {FAST: (3.0, 0.5), SLOW: (0.1, 1.0)} if SLOW in used else {FAST: (6.0, 1.0)}


def adding(used: frozenset[FourTuple]) -> Rates:
    """Both are busy: the session has the sum."""
    return {name: (rate, 1.0) for name, rate in ((FAST, 6.0), (SLOW, 2.0)) if name in used}


def limited(_: frozenset[FourTuple]) -> Rates:
    """The slow path keeps something under way, but the server has no more to send."""
    return {FAST: (3.0, 0.5), SLOW: (0.1, 1.0)}


def named(_token: int, name: FourTuple) -> ClientPath:
    return client_path("wired" if name == FAST else "wireless", name.remote)


@dataclass
class World:
    """One session, read ``every`` half a second; the kernel does what is decided."""

    model: Model
    decider: Decider = field(default_factory=lambda: Decider(named, is_dry=False))
    token: int = 7
    names: tuple[FourTuple, ...] = (FAST, SLOW)
    by_client: set[FourTuple] = field(default_factory=set)
    round_trips: Mapping[FourTuple, int] = field(default_factory=lambda: {FAST: 20_000})
    """Microseconds; of others 60,000."""
    obeys: bool = True
    refused: set[FourTuple] = field(default_factory=set)
    losing: Callable[[int, FourTuple], bool] = lambda _reading, _name: False
    """Whether a subflow retransmits before a reading of this number."""
    every: int = HALF
    now: int = 100 * SECOND
    acked: Counter[FourTuple] = field(default_factory=Counter)
    sending: Counter[FourTuple] = field(default_factory=Counter)
    again: Counter[FourTuple] = field(default_factory=lambda: Counter((FAST, SLOW, THIRD)))
    """Each has lost something, at the latest when its queue was full."""
    made: set[FourTuple] = field(default_factory=set)
    changes: list[tuple[float, Change]] = field(default_factory=list)

    def read(self, readings: int = 1) -> list[Change]:
        """So many readings; what was changed, also with its seconds in ``changes``."""
        found: list[Change] = []
        for _ in range(readings):
            self.now += self.every
            rates = self.model(frozenset(self.names) - self.made - self.by_client)
            for name, (rate, share) in rates.items():
                self.acked[name] += round(rate * MEGABYTE * self.every / SECOND)
                self.sending[name] += round(share * 1_000_000 * self.every / SECOND)
                self.again[name] += self.losing(self.now // self.every, name)
            for change in self.decider.decide(self._readings(rates), self.now):
                if self.obeys and change.subflow not in self.refused:
                    (self.made.add if change.backup else self.made.discard)(change.subflow)
                found.append(change)
                self.changes.append((self.now / SECOND - 100, change))
        return found

    def _readings(self, rates: Rates) -> Readings:
        return {
            name: Traffic(
                acked=self.acked[name],
                received=0,
                rtt_us=self.round_trips.get(name, 60_000),
                retransmitted=self.again[name],
                token=self.token,
                delivery_rate=round(2 * rates[name][0] * MEGABYTE) if rates.get(name, (0, 0))[1] == 0.5 else 0,
                sending_us=self.sending[name],
                backup=name in self.by_client,
                made_backup=name in self.made,
            )
            for name in self.names
        }


def test_before_the_first_reading_nothing_is_steered() -> None:
    assert Steerer(named).status == NOT_STEERED


def test_a_session_that_this_host_has_begun_is_not_steered_also_without_its_first_subflow() -> None:
    """Its backups are its own endpoints'."""
    decider, backup = Decider(named, is_dry=False), Traffic(0, 0, 0, token=7, made_backup=True)
    assert decider.decide({FAST: Traffic(0, 0, 0, token=7, is_own=True), SLOW: backup}, SECOND) == []
    assert decider.decide({SLOW: backup}, 2 * SECOND) == []
    assert decider.decide({}, 3 * SECOND) == []
    assert decider.decide({SLOW: backup}, 4 * SECOND) == [Change(7, SLOW, backup=False)]


def test_beside_many_sessions_rare_readings_are_enough() -> None:
    world = World(stalling, every=9 * HALF)
    assert world.read(2) == [Change(7, SLOW, backup=True)]
    assert world.read(1) == []
    assert world.decider.counts == {Kind.TRIAL: 1, Kind.KEPT: 1}


def test_a_session_that_began_by_what_was_learned_notices_that_its_path_became_slow() -> None:
    alone = [6.0]

    def fading(used: frozenset[FourTuple]) -> Rates:
        return stalling(used) if SLOW in used else {FAST: (alone[0], 1.0)}

    learned = Learned()
    learned.learn(named(7, SLOW), named(7, FAST), 0)
    world = World(fading, Decider(named, is_dry=False, learned=learned))
    world.read(40)
    assert world.decider.counts == {Kind.LEARNED: 1, Kind.RETRY: 1, Kind.BACK: 1}
    alone[0] = 0.5
    assert Change(7, SLOW, backup=False) in world.read(8)
    assert world.decider.counts[Kind.WORSE] == 1


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


def test_all_paths_are_used_again_within_ten_seconds_after_the_better_one_became_slow() -> None:
    world = World(stalling)
    world.read(12)
    assert world.made == {SLOW}
    world.model = lambda used: {FAST: (0.5, 1.0)} | ({SLOW: (0.1, 1.0)} if SLOW in used else {})
    assert world.read(20) == [Change(7, SLOW, backup=False)]
    assert world.decider.counts[Kind.WORSE] == 1
    assert len(world.decider.learned) == 0


def test_a_backup_is_tried_again_and_used_if_it_has_become_good() -> None:
    world = World(stalling)
    world.read(20)
    world.model = adding
    changes = world.read(120)
    assert changes == [Change(7, SLOW, backup=False)]
    assert world.decider.counts[Kind.FREED] == 1


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


def test_who_has_one_path_or_asks_for_a_backup_is_left_alone() -> None:
    alone = World(lambda _: {SLOW: (0.1, 1.0)}, names=(SLOW,))
    assert alone.read(50) == []
    asked = World(lambda _: {FAST: (3.0, 0.5), SLOW: (0.1, 1.0)}, by_client={SLOW})
    assert asked.read(50) == []


def test_a_backup_is_used_when_the_others_have_ended_or_the_client_makes_them_backup() -> None:
    ended = World(stalling)
    ended.read(12)
    ended.names = (SLOW,)
    assert ended.read() == [Change(7, SLOW, backup=False)]
    asked = World(stalling)
    asked.read(12)
    asked.by_client = {FAST}
    assert asked.read() == [Change(7, SLOW, backup=False)]
    during_trial = World(stalling)
    during_trial.read(5)
    during_trial.by_client = {FAST}
    assert during_trial.read() == [Change(7, SLOW, backup=False)]


def test_what_an_earlier_run_left_is_used_again() -> None:
    world = World(adding, made={SLOW})
    assert world.read() == [Change(7, SLOW, backup=False)]
    assert world.read(20) == []
    assert world.decider.counts == {Kind.LEFT: 1}


def test_a_session_of_which_the_kernel_takes_no_decision_is_asked_for_once() -> None:
    world = World(stalling, obeys=False)
    assert len(world.read(300)) == 1
    assert world.decider.counts == {Kind.TRIAL: 1, Kind.REFUSED: 1}
    assert world.decider.steered == 0
    assert "pm_type" in str(world.decider.explain(7))


def test_a_dry_decider_counts_trials_and_changes_nothing() -> None:
    world = World(stalling, Decider(named, is_dry=True), made={THIRD})
    assert world.read(100) == []
    assert world.decider.counts[Kind.TRIAL] >= 2
    assert "would become a backup" in str(world.decider.explain(7))


def test_at_the_end_everything_is_used_again() -> None:
    world = World(stalling)
    world.read(12)
    assert world.decider.release() == [Change(7, SLOW, backup=False)]
    assert world.decider.release() == []


def test_of_three_paths_the_best_alone_is_tried() -> None:
    def model(used: frozenset[FourTuple]) -> Rates:
        rest = {name: (0.1, 1.0) for name in (SLOW, THIRD) if name in used}
        return rest | {FAST: (3.0, 0.5) if rest else (6.0, 1.0)}

    world = World(model, names=(FAST, SLOW, THIRD))
    assert set(world.read(4)) == {Change(7, SLOW, backup=True), Change(7, THIRD, backup=True)}
    world.read(20)
    assert world.made == {SLOW, THIRD}


def test_of_three_paths_those_that_also_wait_stay_in_use() -> None:
    def model(used: frozenset[FourTuple]) -> Rates:
        share = 0.5 if SLOW in used else 1.0
        return {FAST: (6.0 * share, share), THIRD: (5.0 * share, share)} | ({SLOW: (0.1, 1.0)} if SLOW in used else {})

    world = World(model, names=(FAST, SLOW, THIRD))
    assert world.read(4) == [Change(7, SLOW, backup=True)]
    assert world.read(20) == []


def test_a_path_is_not_idle_before_it_joins() -> None:
    world = World(lambda _: {FAST: (1.0, 1.0), SLOW: (6.0, 1.0)}, names=(FAST,))
    world.read(2)
    world.names = (FAST, SLOW)
    assert world.read(60) == []


def test_one_reading_in_which_the_best_path_is_idle_is_no_reason() -> None:
    seen = 0

    def model(_: frozenset[FourTuple]) -> Rates:
        nonlocal seen
        seen += 1
        return {FAST: (0.0, 0.0) if seen == 5 else (6.0, 1.0), SLOW: (0.9, 1.0)}

    assert World(model).read(40) == []


def little(used: frozenset[FourTuple]) -> Rates:
    """Both are busy, but the slow path brings a thirtieth: the fast one waits for it sooner or later."""
    return {name: (rate, 1.0) for name, rate in ((FAST, 6.0), (SLOW, 0.2)) if name in used}


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


def test_a_path_that_brings_little_stays_in_use_if_it_is_quicker_or_grows_or_is_not_always_sending() -> None:
    assert World(little, round_trips={FAST: 80_000}).read(60) == []
    assert World(lambda _: {FAST: (6.0, 1.0), SLOW: (0.2, 0.8)}).read(60) == []
    assert World(lambda _: {FAST: (6.0, 1.0), SLOW: (0.7, 1.0)}).read(60) == []
    rate = 0.01

    def growing(_: frozenset[FourTuple]) -> Rates:
        nonlocal rate
        rate = min(1.3 * rate, 2.0)
        return {FAST: (6.0, 1.0), SLOW: (rate, 1.0)}

    assert World(growing).read(60) == []


def test_a_path_that_brought_little_is_used_again_within_ten_seconds_after_the_better_one_became_slow() -> None:
    world = World(little)
    world.read(12)
    assert world.made == {SLOW}
    world.model = lambda used: {name: (0.3, 1.0) for name in (FAST, SLOW) if name in used}
    assert world.read(20) == [Change(7, SLOW, backup=False)]
    assert world.decider.counts[Kind.WORSE] == 1


def test_a_best_path_that_varies_by_a_third_is_no_reason_to_use_the_others_again() -> None:
    world = World(little)
    world.read(8)
    for rate in (4.0, 6.0, 4.0):
        world.model = lambda _, rate=rate: {FAST: (rate, 1.0)}  # type: ignore[misc]
        assert world.read(10) == []
    assert world.decider.counts == {Kind.UNTRIED: 1}
    assert len(world.decider.learned) == 1


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


def test_a_dry_decider_counts_what_needs_no_trial_and_changes_nothing() -> None:
    world = World(little, Decider(named, is_dry=True))
    assert world.read(100) == []
    assert world.decider.counts[Kind.UNTRIED] >= 2
    assert str(world.decider.explain(7)).endswith("; wireless (10.0.2.2) would become a backup")


def unequal(used: frozenset[FourTuple]) -> Rates:
    """Both are busy, and the slow path brings a sixteenth of the sum."""
    return {name: (rate, 1.0) for name, rate in ((FAST, 6.0), (SLOW, 0.4)) if name in used}


def test_a_slower_path_that_loses_nothing_is_used_though_it_brings_less_than_a_tenth() -> None:
    assert World(unequal).read(200) == []
    # A queue that overflows now and then is no loss.
    assert World(unequal, losing=lambda reading, _: reading % 3 == 0).read(200) == []
    losing = World(unequal, losing=lambda _, name: name == SLOW)
    assert losing.read(12) == [Change(7, SLOW, backup=True)]
    assert losing.decider.counts == {Kind.UNTRIED: 1}


def test_a_backup_that_loses_nothing_any_more_is_used_again_though_it_brings_less_than_a_tenth() -> None:
    world = World(stalling)
    world.read(20)
    world.model = unequal
    assert world.read(120) == [Change(7, SLOW, backup=False)]
    assert world.decider.counts[Kind.FREED] == 1


def test_a_backup_that_brings_nothing_stays_one_though_the_other_path_became_faster_meanwhile() -> None:
    world = World(stalling)
    world.read(20)
    world.model = lambda used: {FAST: (7.0, 1.0), SLOW: (0.1, 1.0)} if SLOW in used else {FAST: (6.0, 1.0)}
    world.read(80)
    assert world.made == {SLOW}
    assert world.decider.counts[Kind.BACK] == 1


def test_of_three_paths_two_that_bring_much_together_are_not_left_out_at_once() -> None:
    rates = {FAST: 6.0, SLOW: 0.2, THIRD: 0.25}
    world = World(lambda used: {name: (rates[name], 1.0) for name in used}, names=(FAST, SLOW, THIRD))
    assert world.read(8) == [Change(7, SLOW, backup=True)]
    # Nor one after the other.
    world.read(200)
    assert {change.subflow for _, change in world.changes} == {SLOW}


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


def test_a_pause_before_a_trial_does_not_make_what_follows_look_faster() -> None:
    world = World(limited)
    world.model = lambda _: {}
    world.read(3)
    world.model = limited
    assert world.read(3) == [Change(7, SLOW, backup=True)]
    world.read(20)
    assert world.decider.counts == {Kind.TRIAL: 1, Kind.UNDONE: 1}


def test_what_a_path_brings_that_joins_during_a_trial_does_not_count() -> None:
    def model(used: frozenset[FourTuple]) -> Rates:
        return {**limited(used), **({THIRD: (3.0, 0.5)} if THIRD in used else {})}

    world = World(model)
    assert world.read(4) == [Change(7, SLOW, backup=True)]
    world.names = (FAST, SLOW, THIRD)
    world.read(12)
    assert world.decider.counts == {Kind.TRIAL: 1, Kind.UNDONE: 1}
    assert not world.made and len(world.decider.learned) == 0


def test_a_path_that_is_gone_ends_its_trial() -> None:
    world = World(stalling, names=(FAST, SLOW, THIRD))
    assert world.read(4) == [Change(7, SLOW, backup=True)]
    world.names = (FAST, THIRD)
    assert world.read(20) == []
    assert world.decider.counts == {Kind.TRIAL: 1}


def test_where_the_kernel_refuses_one_of_two_paths_the_other_one_is_used_again() -> None:
    def model(used: frozenset[FourTuple]) -> Rates:
        return {FAST: (3.0, 0.5)} | {name: (0.1, 1.0) for name in (SLOW, THIRD) if name in used}

    world = World(model, names=(FAST, SLOW, THIRD), refused={THIRD})
    world.read(10)
    assert not world.made
    assert world.decider.counts[Kind.REFUSED] == 1


def test_a_subflow_of_another_session_with_the_same_addresses_and_ports_is_not_measured_against_it() -> None:
    first = World(adding)
    first.read(10)
    second = World(adding, first.decider, token=8, now=first.now)
    assert second.read() == []
    assert second.decider._sessions[8].samples == deque()


def test_a_server_that_sends_more_during_a_trial_and_still_pauses_is_no_gain() -> None:
    world = World(limited)
    assert world.read(4) == [Change(7, SLOW, backup=True)]
    world.model = lambda _: {FAST: (4.0, 0.6), SLOW: (0.1, 1.0)}
    world.read(12)
    assert world.decider.counts == {Kind.TRIAL: 1, Kind.UNDONE: 1}
    assert len(world.decider.learned) == 0


def test_a_path_that_has_never_lost_anything_was_not_asked_for_much() -> None:
    # The server has no more than the fast path brings: the slow one could bring more.
    assert World(little, again=Counter()).read(100) == []
    # It sent much before, and now so little that the fast path has nothing to send.
    world = World(adding, again=Counter())
    world.read(6)
    world.model = lambda _: {FAST: (0.0, 0.0), SLOW: (0.2, 1.0)}
    world.read(20)
    assert world.decider.counts == {Kind.TRIAL: 1, Kind.UNDONE: 1}


def test_a_path_whose_rate_creeps_up_is_not_in_slow_start() -> None:
    rate = 0.1

    def creeping(used: frozenset[FourTuple]) -> Rates:
        nonlocal rate
        rate *= 1.02
        return {name: (each, 1.0) for name, each in ((FAST, 6.0), (SLOW, rate)) if name in used}

    assert World(creeping).read(6) == [Change(7, SLOW, backup=True)]


def test_a_backup_that_is_tried_again_may_take_its_time_in_slow_start() -> None:
    world = World(stalling, round_trips={FAST: 20_000, SLOW: 600_000})
    world.read(20)
    used_for = 0

    def starting(used: frozenset[FourTuple]) -> Rates:
        nonlocal used_for
        used_for = used_for + 1 if SLOW in used else 0
        return {
            name: (rate, 1.0) for name, rate in ((FAST, 6.0), (SLOW, min(2.0, 0.01 * 1.8**used_for))) if name in used
        }

    world.model = starting
    assert world.read(120) == [Change(7, SLOW, backup=False)]


def test_of_several_backups_each_is_tried_again_alone() -> None:
    def model(used: frozenset[FourTuple]) -> Rates:
        rest = {name: (rate, 1.0) for name, rate in ((SLOW, 0.1), (THIRD, 2.0)) if name in used}
        return rest | {FAST: (3.0, 0.5) if SLOW in used else (6.0, 1.0)}

    world = World(model, names=(FAST, SLOW, THIRD))
    assert set(world.read(4)) == {Change(7, SLOW, backup=True), Change(7, THIRD, backup=True)}
    world.read(240)
    assert world.made == {SLOW}
    assert world.decider.counts == {Kind.TRIAL: 1, Kind.KEPT: 1, Kind.RETRY: 2, Kind.BACK: 1, Kind.FREED: 1}


def test_a_session_that_began_by_what_was_learned_uses_all_where_nothing_comes() -> None:
    learned = Learned()
    learned.learn(named(7, SLOW), named(7, FAST), 100 * SECOND)
    world = World(lambda used: dict.fromkeys(used, (0.0, 1.0)), Decider(named, is_dry=False, learned=learned))
    assert world.read() == [Change(7, SLOW, backup=True)]
    assert world.read(4) == [Change(7, SLOW, backup=False)]


def test_a_path_that_began_the_session_is_used_until_the_better_one_has_brought_as_much() -> None:
    learned = Learned()
    learned.learn(named(7, SLOW), named(7, FAST), 0)
    world = World(adding, Decider(named, is_dry=False, learned=learned), acked=Counter({SLOW: 3 * MEGABYTE}))
    assert world.read() == []
    assert world.read() == [Change(7, SLOW, backup=True)]


def test_a_path_whose_trial_was_undone_stays_in_use_when_the_better_one_has_brought_as_much() -> None:
    learned = Learned()
    learned.learn(named(7, SLOW), named(7, FAST), 0)
    world = World(limited, Decider(named, is_dry=False, learned=learned), acked=Counter({SLOW: 20 * MEGABYTE}))
    world.read(40)
    assert world.acked[FAST] > world.acked[SLOW]
    assert world.decider.counts[Kind.UNDONE] >= 1
    assert Kind.LEARNED not in world.decider.counts


def test_a_path_that_joins_again_is_not_tried_sooner() -> None:
    def model(used: frozenset[FourTuple]) -> Rates:
        return {FAST: (3.0, 0.5)} | dict.fromkeys(used - {FAST}, (0.1, 1.0)) if len(used) > 1 else {FAST: (6.0, 1.0)}

    world = World(model)
    world.read(12)
    assert world.made == {SLOW}
    world.names, world.made = (FAST, again := replace(SLOW, remote_port=50_000)), set()
    assert world.read(30) == [Change(7, again, backup=True)]


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


def test_a_backup_that_an_earlier_run_left_is_used_where_it_is_the_only_path() -> None:
    assert World(adding, names=(SLOW,), made={SLOW}).read() == [Change(7, SLOW, backup=False)]


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
