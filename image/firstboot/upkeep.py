"""What a boot looks after whatever the card says: SSH's host keys, and a file system that fills the disk. Pure."""

from collections.abc import Iterator

from image.firstboot.actions import GrowFileSystem, GrowPartition, MakeHostKeys, Upkeep
from image.firstboot.facts import Condition, GrowingPartition

WORTH_IT = 8 << 20
"""Bytes. Below, what is left over is alignment, and the second table of a GPT disk."""


def upkeep(condition: Condition) -> tuple[Upkeep, ...]:
    """The actions, none if all is as it should be."""
    return (
        *(() if condition.has_host_keys else (MakeHostKeys(),)),
        *(_growth(condition.growing) if condition.growing else ()),
    )


def _growth(found: GrowingPartition) -> Iterator[Upkeep]:
    """The file system also by itself: power may have gone after the partition grew."""
    if found.room >= WORTH_IT:
        yield GrowPartition(found.disk, found.number)
    if found.filesystem is not None and found.size + found.room - found.filesystem >= WORTH_IT:
        yield GrowFileSystem(found.device)
