"""Messages between front, switch and back ends that come twice or not at all, and connections of theirs that break: no
client gets a wrong byte, and none hears of what can be mended.

A proxy between a front and the others changes or drops their messages. A function that treats messages may break the
connection by ConnectionAbortedError. The proxy has certificates of its own for both roles.
"""

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from experiments.handoff.network import Network
from overlay.authority import enrol
from overlay.purposes import HANDOFF_FRONT, Purpose, handoff_back_end, handoff_switch
from tests.netns.handoff_world import LARGE, SIZE, HandOff, answer, get, needs_tools, pattern, request
from tests.netns.test_handoff_faults import downloading
from tests.netns.world import eventually

pytestmark = needs_tools

# Messages' kinds, as in handoff/protocol/src/wire.rs.
KINDS = {"hand-over": 3, "accepted": 4, "returned": 6, "keep": 7, "release": 8, "closed": 10}
KINDS |= {"install": 11, "remove": 12, "done": 13, "serve": 17}
REJECTED, LATE = 5, 5
"""The kind of a rejection, and its reason: more was acknowledged than was returned."""

Treat = Callable[[bytes], list[bytes]]
"""Returns what is sent in a message's place."""


@dataclass(frozen=True)
class Between:
    """A proxied connection: its address in the front's namespace, and the other end."""

    listens: tuple[str, int]
    reached: tuple[str, int]
    served: ssl.SSLContext
    asked: ssl.SSLContext
    treat: Treat

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the front's, until one of both ends."""
        far = await asyncio.open_connection(*self.reached, ssl=self.asked, server_hostname=self.reached[0])
        both = [asyncio.create_task(self._pass(*way)) for way in ((reader, far[1]), (far[0], writer))]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in (writer, far[1]):
                end.transport.abort()

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                length = await source.readexactly(4)
                message = length + await source.readexactly(int.from_bytes(length))
                for each in self.treat(message):
                    sink.write(each)
                await sink.drain()


@contextmanager
def between(network: Network, treat: Treat, *, switch: bool = True) -> Iterator[Mapping[str, str]]:
    """Stand-ins for all back ends, and for the ``switch``; the addresses whose place they take, with their own."""
    front = network.address("front")
    authority = network.identity("front").parent
    asked = _context(_identity(authority, "between-front", HANDOFF_FRONT), ssl.PROTOCOL_TLS_CLIENT)
    purposes = {name: handoff_back_end([front]) for name in network.back_ends}
    if switch:
        purposes["switch"] = handoff_switch([front])
    stand_ins, places = [], {}
    for number, (name, purpose) in enumerate(purposes.items()):
        served = _context(_identity(authority, f"between-{name}", purpose), ssl.PROTOCOL_TLS_SERVER)
        reached = network.switch_for_fronts if name == "switch" else network.fronts(name)
        address, _, port = reached.rpartition(":")
        stand_ins.append(Between((front, 7500 + number), (address, int(port)), served, asked, treat))
        places[reached] = f"{front}:{7500 + number}"
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    thread = threading.Thread(target=_run, args=(loop, network, stand_ins, ready))
    thread.start()
    try:
        assert ready.wait(10)
        yield places
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def _run(loop: asyncio.AbstractEventLoop, network: Network, stand_ins: list[Between], ready: threading.Event) -> None:
    # All sockets of this thread belong to the front's namespace.
    with network.nodes["front"].entered():
        servers = []
        for each in stand_ins:
            servers.append(loop.run_until_complete(asyncio.start_server(each.serve, *each.listens, ssl=each.served)))
        ready.set()
        loop.run_forever()
        for server in servers:
            server.close()
        loop.run_until_complete(_ended(asyncio.all_tasks(loop)))
        loop.close()


async def _ended(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _identity(authority: Path, name: str, purpose: Purpose) -> Path:
    folder = authority / name
    return folder if folder.exists() else enrol(authority, name, 1, purpose)


def _context(identity: Path, protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.load_cert_chain(identity / "node.pem", identity / "node.key")
    context.load_verify_locations(identity / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@contextmanager
def front_behind(handoff: HandOff, treat: Treat, *, switch: bool = True) -> Iterator[None]:
    """Restarts the front with ``treat`` for its messages; with ``switch`` also for those with the switch."""
    handoff.kill("front")
    with between(handoff.network, treat, switch=switch) as places:
        handoff.processes["front"] = handoff.network.start_front(instead=places)
        handoff.wait_for("a", "b")
        try:
            yield
        finally:
            handoff.kill("front")


def twice(message: bytes) -> list[bytes]:
    """Each comes again at once."""
    return [message] * (2 if message[5] in KINDS.values() else 1)


class Late:
    """Repeats each return after the next one of its connection, and each reply to it before the next reply."""

    def __init__(self) -> None:
        self.last: dict[bytes, bytes] = {}

    def __call__(self, message: bytes) -> list[bytes]:
        """What is passed on in its place."""
        kind, number = message[5], message[6:14]
        if kind == KINDS["returned"]:
            return [message, *self._again(b"returned" + number, message)]
        if kind in (KINDS["keep"], KINDS["release"]):
            return [*self._again(b"reply" + number, message), message]
        return [message]

    def _again(self, key: bytes, message: bytes) -> list[bytes]:
        last = self.last.get(key)
        self.last[key] = message
        return [last] if last else []


@pytest.mark.parametrize("treat", [twice, Late()], ids=["at once", "late"])
def test_messages_that_come_twice_change_nothing(treat: Treat, handoff: HandOff, tmp_path: Path) -> None:
    is_on = False
    with front_behind(handoff, lambda message: treat(message) if is_on else [message]):
        # Of one connection, whose numbers are those of one of the front's threads.
        is_on = True
        before = handoff.passed_front()
        names = "aabbaaab" * 3
        got = handoff.fetch([f"{name}/{SIZE}" for name in names], tmp_path)
        assert got == [pattern(name, SIZE) for name in names]
        assert handoff.passed_front() - before < len(names) * SIZE / 2, "most of them were handed over"
        eventually(lambda: not handoff.at_back_ends())


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_that_is_lost_is_sent_again_and_no_client_hears_of_it(kind: str, handoff: HandOff) -> None:
    is_on, lost = False, False

    def treat(message: bytes) -> list[bytes]:
        nonlocal lost
        if not is_on or lost or message[5] != KINDS[kind]:
            return [message]
        lost = True
        return []

    with front_behind(handoff, treat):
        is_on = True
        with handoff.connection() as client:
            for name in "aabba":
                get(client, name, 1000)
        eventually(lambda: lost)
        with handoff.connection() as client:
            for name in "ab":
                get(client, name, SIZE)


class Cut:
    """Breaks each connection that has something to pass on, as long as it ``is_on``."""

    def __init__(self) -> None:
        self.is_on, self.count = False, 0

    def __call__(self, message: bytes) -> list[bytes]:
        """The message, or the connection's end."""
        if self.is_on:
            self.count += 1
            raise ConnectionAbortedError
        return [message]


def test_a_broken_connection_to_a_back_end_costs_no_answer(handoff: HandOff) -> None:
    """The front's TCP connections to its back ends are all cut in the midst of an answer. The client gets
    all of it, and its next ones by the same connection."""
    # To make it takes long: its client would rest for that time.
    cut, expected = Cut(), pattern("a", LARGE)
    with front_behind(handoff, cut, switch=False), handoff.begun(f"a/{LARGE}") as client:
        cut.is_on = True
        # Each end says something every 0.1 s.
        time.sleep(0.3)
        assert cut.count >= 2
        assert handoff.at_back_ends()
        cut.is_on = False
        assert answer(client) == expected
        for name in "ab":
            get(client, name, SIZE)
        assert handoff.outcomes("back-end-lost") == []


@pytest.mark.parametrize("name", ["front", "a"])
def test_a_process_that_stalls_for_longer_than_a_silent_connection_lasts_loses_no_client(
    name: str, handoff: HandOff
) -> None:
    """It does nothing for 1.6 s, as a front that reads a million routes: twice what ends a silent connection."""
    with downloading(handoff, f"a/{LARGE}") as download, handoff.hung(name):
        time.sleep(1.6)
    assert download.result() == pattern("a", LARGE)
    assert handoff.outcomes("back-end-lost") == []
    handoff.wait_for("a")


def rejection(done: bytes) -> bytes:
    """The rejection in the place of a confirmation."""
    length, version, number, rest = done[:4], done[4:5], done[6:14], done[14:22]
    length = (int.from_bytes(length) + 1).to_bytes(4)
    return length + version + bytes([REJECTED]) + number + rest + bytes([LATE])


def test_a_back_end_serves_nothing_for_which_the_switch_has_no_rule(handoff: HandOff) -> None:
    """It has the connection by then, and gives it back: the front relays the request, which nobody has answered yet."""
    refuses = False
    asked: list[bytes] = []
    kinds: list[int] = []

    def treat(message: bytes) -> list[bytes]:
        kind, number = message[5], message[6:14]
        if not refuses:
            return [message]
        kinds.append(kind)
        if kind == KINDS["install"]:
            asked.append(number)
        return [rejection(message) if kind == KINDS["done"] and number in asked else message]

    with front_behind(handoff, treat):
        relayed, handed = (len(handoff.outcomes(name)) for name in ("ok", "handed-over"))
        refuses = True
        with handoff.connection() as client:
            get(client, "a", SIZE)
        eventually(lambda: len(handoff.outcomes("ok")) == relayed + 1)
        assert len(handoff.outcomes("handed-over")) == handed
        assert kinds.count(KINDS["release"]) == kinds.count(KINDS["hand-over"]) == 1
        assert not {KINDS["serve"], KINDS["accepted"]} & set(kinds)
        eventually(lambda: not handoff.at_back_ends())


def expect_reset(handoff: HandOff, client: socket.socket, path: str) -> None:
    with pytest.raises(ConnectionResetError):
        # Some of an answer may have come before.
        client.sendall(request(path))
        while client.recv(1 << 16):
            pass
        raise AssertionError("an end that is no reset")
    eventually(lambda: handoff.outcomes("too-late"))


@pytest.mark.parametrize(
    ("answered", "path"),
    [("", "b/1000"), ("", "relayed/x"), ("b", "a/1000"), ("b", "relayed/x")],
    ids=["to the other back end", "to the front", "later, to a back end", "later, to the front"],
)
def test_a_client_is_reset_whose_back_end_acknowledged_more_than_it_gave_back(
    answered: str, path: str, handoff: HandOff
) -> None:
    """Nobody has the bytes any more, and the client will not send them again: it is not to wait for an answer. So it is
    where the first confirmation is lost, and comes again once the next back end has ``answered``."""
    released: list[bytes] = []
    confirmed: list[bytes] = []

    def treat(message: bytes) -> list[bytes]:
        kind, number = message[5], message[6:14]
        if kind == KINDS["release"]:
            released.append(number)
        if kind != KINDS["done"] or number not in released[:1]:
            return [message]
        confirmed.append(number)
        return [rejection(message)] if len(confirmed) > len(answered) else []

    with front_behind(handoff, treat, switch=False), handoff.connection() as client:
        client.settimeout(8 if answered else 4)
        get(client, "a", 1000)
        released.clear()
        confirmed.clear()
        for name in answered:
            get(client, name, 1000)
        expect_reset(handoff, client, path)
        assert len(confirmed) > len(answered)
