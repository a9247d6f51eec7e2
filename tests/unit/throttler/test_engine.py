from datetime import datetime
from pathlib import Path

import pytest

from throttler.policy.model import Policy, parse
from throttler.policy.quotas import AT_ONCE, SECOND, Quotas
from throttler.policy.values import Direction
from throttler.service.engine import Engine
from throttler.service.events import CounterRead, InterfacesChanged, KernelReset, PolicyChanged, Shutdown
from throttler.service.snapshot import Snapshot
from throttler.shaping.plan import GRACE, HtbClass, Plan
from tributary.mptcp.events import Ended, SessionClosed, SubflowClosed, SubflowEstablished
from tributary.mptcp.four_tuple import FourTuple

FIRST = FourTuple("10.0.1.1", 3128, "10.0.1.2", 40001)
JOINED = FourTuple("10.0.1.1", 3128, "10.0.2.2", 40002)
SESSION = (
    SubflowEstablished(1, 7, FIRST, "eth0", initial=True),
    SubflowEstablished(2, 7, JOINED, "eth1"),
)
PATHS = '[paths.wired]\ninterface = "eth0"\n[paths.wireless]\ninterface = "eth1"\n'


class World:
    def __init__(self, policy: Policy) -> None:
        self.time = datetime(2026, 11, 21, 12, 0)
        self.engine = Engine(policy, Quotas(), lambda: self.time)
        self.now = 0

    def wait(self, seconds: int, local: datetime | None = None) -> Plan:
        self.now += seconds * SECOND
        self.time = local or self.time
        return self.engine.handle((), self.now)

    @property
    def shown(self) -> Snapshot:
        return self.engine.snapshot()


@pytest.fixture
def world(request: pytest.FixtureRequest) -> World:
    """With the one rule that the test's parameter says, or a limit of one path."""
    return World(policy_of(getattr(request, "param", 'path = "wired"\nrate = "5mbit"')))


def policy_of(rule: str) -> Policy:
    return parse(f'{PATHS}[[rules]]\nname = "rule"\n{rule}\n', "p.toml", Path("p.toml"))


def entered(plan: Plan) -> list[FourTuple]:
    return [element.subflow for element in plan.add]


def test_the_second_subflow_brings_the_limit_and_its_end_takes_it_away(world: World) -> None:
    assert world.engine.handle(SESSION[:1], 0).is_empty
    assert entered(world.engine.handle(SESSION[1:], 0)) == [FIRST]
    plan = world.engine.handle([SubflowClosed(3, 7, JOINED, Ended.FIN)], SECOND)
    assert [element.subflow for element in plan.remove] == [FIRST]
    assert world.engine.deadline <= SECOND + GRACE
    assert world.engine.handle((), SECOND + GRACE).close == plan.drain


@pytest.mark.parametrize("shared_by", ["subflow", "session"])
def test_a_port_used_again_is_throttled_for_its_new_session_alone(shared_by: str) -> None:
    world = World(policy_of(f'min_subflows = 1\nrate = "5mbit"\nshared_by = "{shared_by}"'))
    first = world.engine.handle(SESSION[:1], 0)
    # Nothing told the end of session 7.
    plan = world.engine.handle([SubflowEstablished(3, 8, FIRST, "eth0", initial=True)], 1)
    assert [element.subflow for element in plan.remove] == entered(plan) == [FIRST]
    assert plan.drain == (first.open if shared_by == "session" else ())
    assert (len(world.shown.sessions), world.shown.subflows_total, world.shown.throttled_total) == (1, 1, 1)
    # When it is told after all, the new subflow stays throttled.
    assert world.engine.handle([SubflowClosed(4, 7, FIRST, Ended.RESET), SessionClosed(5, 7, Ended.CLOSED)], 2).is_empty
    assert len(world.engine.handle([SessionClosed(6, 8, Ended.CLOSED)], 3).remove) == 1


@pytest.mark.parametrize("world", ['hours = "18:00-23:00"\nrate = "5mbit"'], indirect=True)
def test_a_rule_throttles_from_the_minute_at_which_it_becomes_active(world: World) -> None:
    assert world.engine.handle(SESSION, 0).is_empty
    evening = world.time.replace(hour=18)
    assert entered(world.wait(60, evening)) == [FIRST, JOINED]
    assert world.engine.deadline == world.now + 60 * SECOND
    assert len(world.wait(60, evening.replace(hour=23)).remove) == 2


@pytest.mark.parametrize("world", ['hours = "18:00-23:00"\nrate = "5mbit"'], indirect=True)
def test_a_calendar_that_is_set_back_is_noticed_within_a_minute(world: World) -> None:
    world.engine.handle(SESSION, 0)
    world.wait(60, world.time.replace(hour=19))
    assert len(world.wait(60, world.time.replace(hour=9)).remove) == 2


def metered(world: World) -> tuple[HtbClass, ...]:
    """The classes whose counters are read when all are."""
    return world.engine.handle([Shutdown()], world.now).read


QUOTA = 'path = "wired"\nshared_by = "client"\nrate = "20mbit"\nquota = "3MB per day"\nover_quota_rate = "500kbit"'


@pytest.mark.parametrize("world", [QUOTA], indirect=True)
def test_a_spent_quota_changes_the_class_and_the_next_day_changes_it_back(world: World) -> None:
    (opened,) = world.engine.handle(SESSION, 0).open
    assert metered(world) == (opened,)
    assert not world.engine.handle([CounterRead(opened.minor, 2_000_000)], SECOND).change
    (slower,) = world.engine.handle([CounterRead(opened.minor, 3_000_000)], 2 * SECOND).change
    assert (slower.minor, slower.rates.rate) == (opened.minor, 500_000)
    (faster,) = world.wait(60, world.time.replace(day=22)).change
    assert faster.rates.rate == 20_000_000


def test_another_policy_decides_about_the_sessions_that_are_there(world: World) -> None:
    world.engine.handle(SESSION, 0)
    plan = world.engine.handle([PolicyChanged(policy_of('path = "wireless"\nrate = "1mbit"'))], 0)
    assert [element.subflow for element in plan.remove] == [FIRST]
    assert entered(plan) == [JOINED]
    assert plan.topology is not None
    assert {link.interface for link in plan.topology.links} == {"eth0", "eth1"}


def test_after_a_failure_everything_is_wanted_again(world: World) -> None:
    first = world.engine.handle(SESSION, 0)
    again = world.engine.handle([KernelReset()], SECOND)
    assert (again.topology, again.open, again.add) == (first.topology, first.open, first.add)
    assert world.shown.counts["resets"] == 1


@pytest.mark.parametrize("world", ['path = "wired"\nrate = "5mbit"\ndry_run = true'], indirect=True)
def test_a_dry_run_rule_is_counted_and_wants_nothing(world: World) -> None:
    assert world.engine.handle(SESSION, 0).is_empty
    assert world.shown.subflows_by_rule["rule"] == world.shown.matches_by_rule["rule"] == 1
    world.engine.handle([SubflowClosed(3, 7, FIRST, Ended.FIN)], 0)
    assert world.shown.subflows_by_rule["rule"] == 0
    assert world.shown.subflows_by_path["wireless"] == 1


@pytest.mark.parametrize("world", [QUOTA], indirect=True)
def test_a_class_that_drains_while_the_policy_is_read_again_is_still_metered_to_its_end(world: World) -> None:
    (opened,) = world.engine.handle(SESSION, 0).open
    world.engine.handle([SubflowClosed(3, 7, FIRST, Ended.FIN)], SECOND)
    world.engine.handle([PolicyChanged(world.shown.policy)], SECOND)
    assert metered(world) == (opened,)
    plan = world.engine.handle((), SECOND + GRACE)
    assert plan.close == plan.read == (opened,)
    world.engine.handle([CounterRead(opened.minor, 1_000_000)], SECOND + GRACE)
    assert [amount for _, _, amount in world.shown.used] == [1_000_000]
    assert world.engine.handle((), 100 * SECOND).read == ()


@pytest.mark.parametrize("world", [QUOTA], indirect=True)
def test_a_counter_is_read_when_it_is_due_and_not_again_before_it_was(world: World) -> None:
    (opened,) = world.engine.handle(SESSION, 0).open
    due = world.engine.deadline
    assert 0 < due < 5 * SECOND
    assert world.engine.handle((), due - 1).read == ()
    assert world.engine.handle((), due).read == (opened,)
    assert world.engine.handle((), due).read == ()
    world.engine.handle([CounterRead(opened.minor, 1_000)], due)
    assert world.engine.deadline > due


@pytest.mark.parametrize("world", [QUOTA], indirect=True)
def test_a_class_that_is_gone_when_it_is_read_counts_nothing(world: World) -> None:
    (opened,) = world.engine.handle(SESSION, 0).open
    world.engine.handle([CounterRead(opened.minor, None)], SECOND)
    assert [amount for _, _, amount in world.shown.used] == [0]


@pytest.mark.parametrize("world", [QUOTA], indirect=True)
def test_what_was_read_before_a_failure_counts_and_the_new_class_begins_at_zero(world: World) -> None:
    (opened,) = world.engine.handle(SESSION, 0).open
    (again,) = world.engine.handle([CounterRead(opened.minor, 1_000_000), KernelReset()], SECOND).open
    assert again.minor == opened.minor
    world.engine.handle([CounterRead(again.minor, 500_000)], 2 * SECOND)
    assert [amount for _, _, amount in world.shown.used] == [1_500_000]


def test_a_layout_is_planned_once_and_again_with_each_policy(world: World) -> None:
    first = world.engine.handle((), 0)
    assert first.topology is not None and first.is_empty
    assert world.engine.handle(SESSION, 0).topology is None
    assert world.engine.handle([PolicyChanged(world.shown.policy)], 0).topology == first.topology


@pytest.mark.parametrize("world", ['direction = "both"\nrate = "5mbit"'], indirect=True)
def test_a_path_whose_interface_is_not_there_is_without_limits_until_it_is(world: World) -> None:
    """One of two paths has no interface at the start, gets it, loses it, and gets it again: the other goes on."""
    plan = world.engine.handle([InterfacesChanged(frozenset({"eth0", "lo"})), *SESSION], 0)
    assert plan.topology is not None and {link.interface for link in plan.topology.links} == {"eth0"}
    assert set(entered(plan)) == {FIRST}
    assert world.shown.absent == {"eth1"} and world.shown.subflows_by_path["wireless"] == 1
    for _ in range(2):
        came = world.engine.handle([InterfacesChanged(frozenset({"eth0", "eth1"}))], world.now)
        assert set(entered(came)) == {JOINED} and came.remove == ()
        assert came.topology is not None
        assert {link.interface for link in came.topology.links if link.is_there} == {"eth0", "eth1"}
        gone = world.engine.handle([InterfacesChanged(frozenset({"eth0"}))], world.now)
        assert {element.subflow for element in gone.remove} == {JOINED} and gone.add == ()
        assert gone.topology is not None
        # What it had in the device for uploads stays, and is drained; the rest went with it.
        assert [(one.key.direction, one.key.interface) for one in gone.lost] == [(Direction.DOWNLOAD, "eth1")]
        assert [link.direction for link in gone.topology.links if not link.is_there] == [Direction.UPLOAD]
        assert [one.key.direction for one in world.wait(GRACE // SECOND).close] == [Direction.UPLOAD]


@pytest.mark.parametrize("world", ['rate = "5mbit"'], indirect=True)
def test_interfaces_that_no_path_names_change_nothing(world: World) -> None:
    world.engine.handle([InterfacesChanged(frozenset({"eth0", "eth1"})), *SESSION], 0)
    plan = world.engine.handle([InterfacesChanged(frozenset({"eth0", "eth1", "docker0"}))], 0)
    assert plan.is_empty and plan.topology is None


@pytest.mark.parametrize("world", [QUOTA], indirect=True)
def test_a_quota_that_is_spent_decides_again_about_its_owners_sessions_alone(world: World) -> None:
    """With many sessions, to decide about all of them each time takes seconds, in which joins wait."""
    others = [
        SubflowEstablished(1, token, FourTuple("10.0.1.1", 3128, f"10.1.{token}.{way}", 40000), f"eth{way}")
        for token in range(100, 200)
        for way in (0, 1)
    ]
    opened = world.engine.handle((*SESSION, *others), 0).open
    decided: list[int] = []
    engine, decide = world.engine, world.engine._decide
    engine._decide = lambda token: decided.append(token) or decide(token)  # type: ignore[method-assign,func-returns-value]
    (mine,) = (one for one in opened if one.key.owner.key == FIRST.remote)
    assert len(engine.handle([CounterRead(mine.minor, 3_000_000)], SECOND).change) == 1
    assert decided == [7]
    decided.clear()
    assert len(world.wait(60, world.time.replace(day=22)).change) == 1
    assert decided == [7]


@pytest.mark.parametrize("world", [QUOTA], indirect=True)
def test_of_very_many_counters_that_are_due_some_are_read_in_a_round_and_the_others_in_the_next(world: World) -> None:
    clients = [
        SubflowEstablished(1, token, FourTuple("10.0.1.1", 3128, f"10.1.{token}.9", 40000 + way), f"eth{way}")
        for token in range(250)
        for way in (0, 1)
    ]
    world.engine.handle(clients, 0)
    rounds = [len(world.engine.handle((), 10 * SECOND).read) for _ in range(4)]
    assert rounds == [AT_ONCE, AT_ONCE, 250 - 2 * AT_ONCE, 0]
