"""Numbers by which disks, partitions and file systems are told apart: the same image has the same ones. Pure."""

from dataclasses import dataclass
from typing import Self
from uuid import UUID, uuid5

_NAMESPACE = UUID("6f2f6c1e-6a0a-5c0e-9f0e-5452494255a1")


@dataclass(frozen=True)
class Identity:
    """``disk`` and the partitions' as GPT has them, ``disk_number`` as MBR has it, ``volume`` as FAT has it."""

    disk: UUID
    disk_number: int
    bios: UUID
    boot: UUID
    volume: int
    root: UUID
    root_filesystem: UUID
    other_root: UUID
    data: UUID
    data_filesystem: UUID

    @classmethod
    def of(cls, image: str) -> Self:
        """Those of the ``image`` of this name."""

        def number(what: str) -> UUID:
            return uuid5(_NAMESPACE, f"{image}/{what}")

        return cls(
            disk=number("disk"),
            disk_number=number("disk").time_low or 1,  # 0 would say that there is none
            bios=number("bios"),
            boot=number("boot"),
            volume=number("volume").time_low or 1,
            root=number("root"),
            root_filesystem=number("root file system"),
            other_root=number("other root"),
            data=number("data"),
            data_filesystem=number("data file system"),
        )
