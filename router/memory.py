"""What the kernel cannot tell a later start: what is ours there, the gateway in use, and the limits from before us.

A file for each network namespace, in a directory that a reboot empties as it empties the kernel (/run). It is written
before endpoints are made, so that a daemon that is killed leaves none that nobody knows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from router.observed import Address, Limits
from tributary.daemons.state_file import StateFile, Tell

DIRECTORY = Path("/run/tributary/router")


@dataclass(frozen=True)
class Memory:
    """What we made or are about to make: endpoints by their ids, and the names of tunnels' interfaces.

    ``limits_before`` are those from before, None if we have not set any; ``translates``: there is a table of nft's.
    ``gateway`` is where the one is that is used, as the settings say.
    """

    endpoints: Mapping[int, Address] = field(default_factory=dict)
    limits_before: Limits | None = None
    tunnels: frozenset[str] = frozenset()
    translates: bool = False
    gateway: str | None = None


class Store:
    """The file of one network namespace."""

    def __init__(self, where: Path, name: int) -> None:
        self._file = StateFile(where / f"{name}.json")

    def load(self, tell: Tell | None = None) -> Memory:
        """What was kept last, empty if nothing was.

        What is not ours is set aside and told; without ``tell`` CommandError is raised, exit 71, or 77 if it is root's.
        """
        return self._file.read(_read, tell) or Memory()

    def save(self, memory: Memory) -> None:
        """Replace the file whole; raises CommandError, exit 71."""
        self._file.replace(_written(memory))

    def forget(self) -> None:
        """Remove the file; raises CommandError, exit 71."""
        self._file.remove()


def _written(memory: Memory) -> dict[str, Any]:
    before = memory.limits_before
    return {
        "endpoints": {number: str(address) for number, address in memory.endpoints.items()},
        "limits_before": [before.subflows, before.accepted_addresses] if before else None,
        "tunnels": sorted(memory.tunnels),
        "translates": memory.translates,
        "gateway": memory.gateway,
    }


def _read(document: dict[str, Any]) -> Memory:
    before = document["limits_before"]
    return Memory(
        {int(number): ip_address(address) for number, address in document["endpoints"].items()},
        Limits(int(before[0]), int(before[1])) if before else None,
        # A daemon of an older version knew of none.
        frozenset(map(str, document.get("tunnels", []))),
        bool(document.get("translates", False)),
        document.get("gateway"),
    )
