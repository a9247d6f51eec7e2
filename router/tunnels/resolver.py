"""Resolves names beside the daemon: getaddrinfo(3) blocks, and the daemon must not."""

import socket
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future
from ipaddress import ip_address

from tributary.kernel.state import Address

Addresses = tuple[Address, ...]


class Resolver:
    """The names that are asked for; ``wake`` is called when there is an answer, in the thread that has it."""

    def __init__(self, wake: Callable[[object], None]) -> None:
        self._wake = wake
        self._asked: dict[str, Future[Addresses]] = {}

    def ask(self, names: Collection[str]) -> None:
        """Resolves these names, except those that are pending."""
        for name in set(names) - self._asked.keys():
            self._asked[name] = answer = Future[Addresses]()
            answer.add_done_callback(self._wake)
            # A daemon thread: a time-out of a name server must not delay the exit.
            threading.Thread(target=_resolve, args=(name, answer), daemon=True, name="resolver").start()

    def answers(self) -> dict[str, Addresses]:
        """The names resolved since the last call, without those that were not found."""
        done = {name: self._asked.pop(name).result() for name, answer in [*self._asked.items()] if answer.done()}
        return {name: found for name, found in done.items() if found}


def _resolve(name: str, answer: Future[Addresses]) -> None:
    answer.set_result(addresses(name))


def addresses(name: str) -> Addresses:
    """All addresses of a name; none if it is not found, or no server answers."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(ip_address(str(address[0]).partition("%")[0]) for *_, address in found))
