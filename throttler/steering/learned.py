"""What steering has found out about paths, for the next sessions of the same clients."""

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
        self._until: dict[tuple[ClientPath, ClientPath], int] = {}

    def __len__(self) -> int:
        return len(self._until)

    def learn(self, worse: ClientPath, better: ClientPath, now: int) -> None:
        """Remember a pair, unless both are the same."""
        if worse == better:
            return
        self.forget(worse, better)
        if len(self._until) >= MOST:
            del self._until[next(iter(self._until))]
        self._until[worse, better] = now + KEPT

    def forget(self, worse: ClientPath, better: ClientPath) -> None:
        """It was found to be otherwise."""
        self._until.pop((worse, better), None)

    def is_worse(self, path: ClientPath, beside: ClientPath, now: int) -> bool:
        """Whether ``path`` is better left out beside the other one."""
        return self._until.get((path, beside), now) > now
