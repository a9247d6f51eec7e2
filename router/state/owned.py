"""What the kernel cannot tell after a restart: owned endpoints and addresses, the gateway in use, the limits before.

There is one file for each network namespace, in a directory that a reboot empties as it empties the kernel (/run). It
is written before endpoints are created, so that a daemon that is killed leaves no endpoint that it does not know.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tributary.daemons.state_file import StateFile, Tell, document_of
from tributary.kernel.state import Address, Limits, OwnAddress


@dataclass(frozen=True)
class OwnershipRecord:
    """The endpoints by id, and the names of tunnels' interfaces, that exist or are about to be created.

    ``limits_before`` is None if the limits were not changed. ``has_translation``: the nft table exists. ``gateway`` is
    HOST:PORT of the gateway in use, as in the settings. ``lan`` are the router's own addresses in its LAN.
    """

    endpoints: Mapping[int, Address]
    limits_before: Limits | None
    tunnels: frozenset[str]
    has_translation: bool
    gateway: str | None
    # Files of earlier versions have none.
    lan: frozenset[OwnAddress] = frozenset()


NOTHING_OWNED = OwnershipRecord({}, None, frozenset(), False, None)
_READ = document_of(OwnershipRecord)


class RecordFile(StateFile):
    """The file of one network namespace; its methods raise CommandError."""

    def __init__(self, where: Path, namespace: int) -> None:
        super().__init__(where / f"{namespace}.json")

    def load(self, tell: Tell | None = None) -> OwnershipRecord:
        return self.read(_READ, tell) or NOTHING_OWNED

    def save(self, record: OwnershipRecord) -> None:
        self.replace(record)
