"""What steering has found out about paths, for the next sessions of the same clients."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from throttler.policy.quotas import SECOND

KEPT = 3600 * SECOND
"""Nanoseconds for which it holds."""
MOST = 10_000
"""Pairs of paths; the oldest make room."""
_PREFIX = {4: 24, 6: 64}


@dataclass(frozen=True, slots=True)
class ClientPath:
    """Where a subflow leads: the policy's path, or else its interface, and the prefix of the client's address."""

    path: str
    prefix: str


def client_path(path: str, client: str) -> ClientPath:
    """The path of that name to a client's address."""
    address = ip_address(client)
    return ClientPath(path, str(ip_network((address, _PREFIX[address.version]), strict=False)))


class Learned:
    """Which path is better left out beside which other one."""

    def __init__(self) -> None:
        self._found: dict[tuple[ClientPath, ClientPath], int] = {}

    def __len__(self) -> int:
        return len(self._found)

    def learn(self, worse: ClientPath, better: ClientPath, now: int) -> None:
        """Remember a pair, unless both are the same."""
        if worse == better:
            return
        self.forget(worse, better)
        self.forget(better, worse)
        if len(self._found) >= MOST:
            del self._found[next(iter(self._found))]
        self._found[worse, better] = now

    def forget(self, worse: ClientPath, better: ClientPath) -> None:
        """It was found to be otherwise."""
        self._found.pop((worse, better), None)

    def worse_since(self, path: ClientPath, beside: Iterable[ClientPath], now: int) -> int | None:
        """When ``path`` was last found to be better left out beside one of these, None if that holds no longer."""
        found = [self._found[path, each] for each in beside if (path, each) in self._found]
        return max((when for when in found if now < when + KEPT), default=None)
