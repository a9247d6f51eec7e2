"""What a boot looks after whatever the card says: SSH's host keys, and a root file system that fills its disk. Pure."""

from collections.abc import Iterator

from image.firstboot.actions import GrowFileSystem, GrowPartition, MakeHostKeys, Upkeep
from image.firstboot.facts import Condition, RootPartition

WORTH_IT = 8 << 20
"""Bytes. Below, what is left over is alignment, and the second table of a GPT disk."""


def upkeep(condition: Condition) -> tuple[Upkeep, ...]:
    """The actions, none if all is as it should be."""
    return (
        *(() if condition.has_host_keys else (MakeHostKeys(),)),
        *(_growth(condition.root) if condition.root else ()),
    )


def _growth(root: RootPartition) -> Iterator[Upkeep]:
    """The file system also by itself: power may have gone after the partition grew."""
    if root.room >= WORTH_IT:
        yield GrowPartition(root.disk, root.number)
    if root.filesystem is not None and root.size + root.room - root.filesystem >= WORTH_IT:
        yield GrowFileSystem(root.device)
