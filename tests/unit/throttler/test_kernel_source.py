"""The kernel as a source, whose sockets are scanned beside the loop while events go on.

What comes when is for the test to say here, which no kernel would do as asked.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from tests.netns.world import eventually
from throttler.sources import draining, kernel
from throttler.sources.kernel import KernelEvents
from tributary.kernel import routes
from tributary.mptcp import sockets
from tributary.mptcp.events import Ended, Event, SessionClosed, SubflowClosed, SubflowEstablished, SubflowPriority
from tributary.mptcp.four_tuple import FourTuple
from tributary.mptcp.path_manager import EventsLost
from tributary.mptcp.sockets import Snapshot

Subflows = Mapping[FourTuple, tuple[int, bool]]
ONE, TWO, THREE = (FourTuple("10.0.0.1", 3128, "10.0.1.2", port) for port in (1, 2, 3))


def opened(name: FourTuple, token: int) -> SubflowEstablished:
    return SubflowEstablished(0, token, name, "")


@dataclass
class Kernel:
    """``queue`` is what the events' socket has; a scan finds ``sockets`` when it ``may_end``."""

    queue: list[Event | Exception] = field(default_factory=list)
    sockets: list[SubflowEstablished] = field(default_factory=list)
    may_end: threading.Event = field(default_factory=threading.Event)

    def __call__(self, _interface_of: object) -> "Kernel":
        return self

    def close(self) -> None: ...

    def fileno(self) -> int:
        return -1

    def events(self, _most: int) -> Iterator[Event]:
        while self.queue:
            each = self.queue.pop(0)
            if isinstance(each, Exception):
                raise each
            yield each

    def snapshot(self, _now: int) -> Snapshot:
        assert self.may_end.wait(10)
        return Snapshot(tuple(self.sockets), 0)


@dataclass
class World:
    kernel: Kernel
    source: KernelEvents

    def events(self, known: Subflows, *came: Event | Exception) -> Sequence[Event]:
        """What the source gives when these have come, to who knows these subflows."""
        self.kernel.queue += came
        return self.source.events(lambda: known)

    def after_scan(self, known: Subflows, *found: SubflowEstablished) -> Sequence[Event]:
        """The same, once a scan has ended that has found these."""
        self.kernel.sockets = list(found)
        self.kernel.may_end.set()
        assert eventually(lambda: self.source.has_pending)
        # The next scan finds what is there by its own end.
        self.kernel.may_end.clear()
        return self.events(known)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A source whose first scan is over, and whose second is due."""
    made = Kernel()
    monkeypatch.setattr(kernel, "PathManager", made)
    monkeypatch.setattr(sockets, "snapshot", made.snapshot)
    monkeypatch.setattr(kernel, "_BETWEEN_SCANS", 0.0)
    monkeypatch.setattr(kernel, "_SHARE", 0)
    monkeypatch.setattr(routes, "interface_of", lambda _: "wired")
    made.may_end.set()
    with KernelEvents() as source:
        source.start()
        made.may_end.clear()
        yield World(made, source)
        made.may_end.set()


def test_a_scan_delays_no_event_and_what_it_finds_comes_when_it_has_ended(world: World) -> None:
    assert world.events({ONE: (7, False)}) == []
    assert world.events({ONE: (7, False)}, opened(TWO, 8)) == [opened(TWO, 8)]
    assert not world.source.has_pending
    found = world.after_scan({ONE: (7, False), TWO: (8, False)}, opened(THREE, 9))
    assert [(type(event), event.token) for event in found] == [(SubflowClosed, 7), (SubflowEstablished, 9)]


def test_what_came_while_the_sockets_were_scanned_is_newer(world: World) -> None:
    known = {ONE: (7, False)}
    world.events(known)
    # One ends and another begins; the scan has passed the one and not reached the other.
    assert len(world.events(known, SubflowClosed(1, 7, ONE, Ended.RESET), opened(TWO, 8))) == 2
    assert world.after_scan({TWO: (8, False)}, opened(ONE, 7)) == []


def test_a_scan_that_began_before_events_were_lost_does_not_count(world: World) -> None:
    world.events({})
    assert world.events({ONE: (7, False)}, EventsLost()) == []
    found = world.after_scan({ONE: (7, False)})
    assert [(type(event), event.token) for event in found] == [(SubflowClosed, 7)]


def test_a_backup_whose_event_was_lost_is_one_after_the_scan(world: World) -> None:
    known = {ONE: (7, False), TWO: (8, True)}
    assert world.events(known, EventsLost()) == []
    (event,) = world.after_scan(known, replace(opened(ONE, 7), backup=True), replace(opened(TWO, 8), backup=True))
    assert isinstance(event, SubflowPriority) and (event.subflow, event.backup) == (ONE, True)


def test_many_sessions_that_are_closed_at_once_are_forgotten_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turn by turn, without a pause between: 10,000 that a converter leaves would take more than a minute."""
    monkeypatch.setattr(draining, "PAUSE", 0)
    ends = [SessionClosed(0, token, Ended.CLOSED) for token in range(200)]
    names = [FourTuple("10.0.0.1", 3128, "10.0.1.2", port) for port in range(200)]
    left = len(world.events({}, *(opened(name, token) for token, name in enumerate(names)), *ends)) - 200
    while world.source.has_pending:
        left += sum(isinstance(event, SessionClosed) for event in world.events({}))
    assert left == 200


def test_a_session_that_this_host_has_begun_has_no_client(world: World) -> None:
    """As a converter's to the next one, which may be behind the same interface."""
    own, join = replace(opened(ONE, 7), initial=True, is_own=True), opened(TWO, 7)
    assert world.events({}, own, join, SubflowClosed(1, 7, TWO, Ended.RESET)) == []
    assert world.after_scan({}, own, join) == []
    client = replace(opened(THREE, 8), initial=True)
    assert world.events({}, join, client) == [client]
    # Its token may be that of a client's session later.
    again = replace(opened(ONE, 7), initial=True)
    assert world.events({}, SessionClosed(2, 7, Ended.CLOSED), again) == [again]


def test_a_session_that_this_host_had_begun_before_the_throttler_is_known_by_its_first_subflow(world: World) -> None:
    world.events({})
    assert world.after_scan({}, replace(opened(ONE, 7), initial=True, is_own=True)) == []
    assert world.events({}, opened(TWO, 7)) == []
    # Its first subflow ends with its link.
    assert world.after_scan({}, opened(TWO, 7)) == []
    assert world.events({}, opened(THREE, 7)) == []
    # What is not there any more has no part in later ones of that token.
    assert world.after_scan({}) == []
    assert world.events({}, opened(TWO, 7)) == [opened(TWO, 7)]
