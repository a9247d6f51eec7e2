from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from tests.unit.throttler.test_engine import FIRST, JOINED, policy_of
from tests.unit.throttler.test_report import of
from throttler.policy.quotas import Quotas
from throttler.service.engine import Engine
from throttler.service.silence import Silence
from tributary.mptcp.events import SubflowEstablished
from tributary.mptcp.four_tuple import FourTuple

LONGEST = 100


class World:
    """One rule, and a look at each ``now`` at what its classes, by minor number, have sent."""

    def __init__(self, shared_by: str, folder: Path) -> None:
        self.engine = Engine(
            policy_of(f'min_subflows = 1\nrate = "5mbit"\nshared_by = "{shared_by}"', folder), Quotas(), datetime.now
        )
        self.silence = Silence()

    def come(self, name: FourTuple, now: int, token: int = 7, interface: str = "eth0") -> None:
        self.engine.handle([SubflowEstablished(now, token, name, interface)], 0)

    def look(self, now: int, sent: Mapping[int, int]) -> list[FourTuple]:
        made = of(self.engine, lambda minor: sent.get(minor, 0))
        return self.silence.look(replace(made, now=now), LONGEST)


def test_a_subflow_whose_class_stands_still_is_silent_when_it_has_for_long_enough(tmp_path: Path) -> None:
    world = World("subflow", tmp_path)
    world.come(FIRST, 0)
    assert [world.look(now, {1: 500}) for now in (0, 50, 99)] == [[], [], []]
    assert world.look(100, {1: 500}) == [FIRST]
    assert world.look(150, {1: 501}) == world.look(240, {1: 501}) == []
    assert world.look(250, {1: 501}) == [FIRST]


def test_who_shares_a_class_that_carries_something_is_not_silent(tmp_path: Path) -> None:
    world = World("client", tmp_path)
    other = FourTuple(FIRST.local, FIRST.local_port, FIRST.remote, 50000)
    world.come(FIRST, 0)
    world.come(other, 0, token=8)
    assert [world.look(now, {1: now}) for now in (0, 100, 200)] == [[], [], []]
    assert world.look(300, {1: 200}) == [FIRST, other]


def test_a_subflow_that_has_just_come_into_a_class_that_stands_still_is_not_silent(tmp_path: Path) -> None:
    world = World("client", tmp_path)
    world.come(FIRST, 0)
    world.look(0, {1: 5})
    world.come(FourTuple(FIRST.local, FIRST.local_port, FIRST.remote, 50000), 90, token=8)
    assert world.look(100, {1: 5}) == [FIRST]


def test_a_class_that_could_not_be_read_says_nothing(tmp_path: Path) -> None:
    world = World("subflow", tmp_path)
    world.come(JOINED, 0, interface="eth1")
    assert [world.look(now, {1: 5}) for now in (0, 100, 200)] == [[], [], []]
