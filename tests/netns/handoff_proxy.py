"""A proxy between a front and the others of a hand-off, which changes or drops their messages.

A function that treats messages may break the connection by ConnectionAbortedError. The proxy has certificates of its
own for both roles.
"""

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.handoff.network import Network
from overlay.authority import enrol
from overlay.purposes import HANDOFF_FRONT, Purpose, handoff_back_end, handoff_switch

# Messages' kinds, as in handoff/protocol/src/wire.rs.
KINDS = {"hand-over": 3, "accepted": 4, "returned": 6, "keep": 7, "release": 8, "closed": 10}
KINDS |= {"install": 11, "remove": 12, "done": 13}
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
