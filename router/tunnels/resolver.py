"""Resolves names in a thread: getaddrinfo(3) blocks, and the daemon must not."""

import queue
import socket
import threading
from collections.abc import Collection
from contextlib import suppress
from ipaddress import ip_address

from tributary.closing import Closing
from tributary.kernel.state import Address


class Resolver(Closing):
    """A context manager with a descriptor that is readable when there is an answer."""

    def __init__(self) -> None:
        self._names: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[str, tuple[Address, ...]]] = queue.SimpleQueue()
        self._asked: set[str] = set()
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        # A daemon thread: a time-out of a name server must not delay the exit.
        threading.Thread(target=self._work, daemon=True, name="resolver").start()

    def close(self) -> None:
        self._reader.close()

    def fileno(self) -> int:
        return self._reader.fileno()

    def ask(self, names: Collection[str]) -> None:
        """Resolves these names, except those that are pending."""
        for name in set(names) - self._asked:
            self._asked.add(name)
            self._names.put(name)

    def answers(self) -> dict[str, tuple[Address, ...]]:
        """The names resolved since the last call, without those that were not found."""
        found = {}
        while not self._answers.empty():
            name, addresses = self._answers.get()
            self._asked.discard(name)
            if addresses:
                found[name] = addresses
        with suppress(BlockingIOError):
            self._reader.recv(4096)
        return found

    def _work(self) -> None:
        while True:
            name = self._names.get()
            self._answers.put((name, addresses(name)))
            try:
                self._writer.send(b"\0")
            except OSError:
                return


def addresses(name: str) -> tuple[Address, ...]:
    """All addresses of a name; none if it is not found, or no server answers."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(ip_address(str(address[0]).partition("%")[0]) for *_, address in found))
