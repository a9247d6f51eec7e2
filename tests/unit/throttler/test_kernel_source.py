"""The kernel as a source, whose sockets are scanned beside the loop while events go on.

What comes when is for the test to say here, which no kernel would do as asked.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from throttler.sources import kernel
from throttler.sources.kernel import KernelEvents
from tributary.kernel import routes
from tributary.mptcp import sockets
from tributary.mptcp.events import Ended, Event, SubflowClosed, SubflowEstablished, SubflowPriority
from tributary.mptcp.four_tuple import FourTuple
from tributary.mptcp.path_manager import EventsLost
from tributary.mptcp.sockets import Snapshot

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


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Kernel, KernelEvents]]:
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
        yield made, source
        made.may_end.set()


def eventually(found: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_scan_delays_no_event_and_what_it_finds_comes_when_it_has_ended(world: tuple[Kernel, KernelEvents]) -> None:
    told, source = world
    assert source.events(lambda: {ONE: (7, False)}) == []
    told.queue.append(opened(TWO, 8))
    assert [event.token for event in source.events(lambda: {ONE: (7, False)})] == [8]
    assert not source.has_pending
    told.sockets = [opened(THREE, 9)]
    told.may_end.set()
    eventually(lambda: source.has_pending)
    found = source.events(lambda: {ONE: (7, False), TWO: (8, False)})
    assert [(type(event), event.token) for event in found] == [(SubflowClosed, 7), (SubflowEstablished, 9)]


def test_what_came_while_the_sockets_were_scanned_is_newer(world: tuple[Kernel, KernelEvents]) -> None:
    told, source = world
    known = {ONE: (7, False)}
    source.events(lambda: known)
    # One ends and another begins; the scan has passed the one and not reached the other.
    told.queue += [SubflowClosed(1, 7, ONE, Ended.RESET), opened(TWO, 8)]
    assert len(source.events(lambda: known)) == 2
    told.sockets = [opened(ONE, 7)]
    told.may_end.set()
    eventually(lambda: source.has_pending)
    assert source.events(lambda: {TWO: (8, False)}) == []


def test_a_scan_that_began_before_events_were_lost_does_not_count(world: tuple[Kernel, KernelEvents]) -> None:
    told, source = world
    source.events(dict)
    told.queue.append(EventsLost())
    assert source.events(lambda: {ONE: (7, False)}) == []
    told.may_end.set()
    eventually(lambda: source.has_pending)
    assert [(type(event), event.token) for event in source.events(lambda: {ONE: (7, False)})] == [(SubflowClosed, 7)]


def test_a_backup_whose_event_was_lost_is_one_after_the_scan(world: tuple[Kernel, KernelEvents]) -> None:
    told, source = world
    known = {ONE: (7, False), TWO: (8, True)}
    told.queue.append(EventsLost())
    assert source.events(lambda: known) == []
    told.sockets = [replace(opened(ONE, 7), backup=True), replace(opened(TWO, 8), backup=True)]
    told.may_end.set()
    eventually(lambda: source.has_pending)
    (event,) = source.events(lambda: known)
    assert isinstance(event, SubflowPriority) and (event.subflow, event.backup) == (ONE, True)
