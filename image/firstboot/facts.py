"""What a plan has to know of the machine, or of the folder that holds a system. Pure."""

from dataclasses import dataclass

from image.firstboot.actions import Owner
from image.firstboot.settings import Role


@dataclass(frozen=True)
class Facts:
    """``role`` is the image's. ``units`` are the unit files that are there; None: all that an image may have.

    ``built_in`` are those of ``wired`` that are on the board. ``owned_files`` are what was written last time,
    ``owned_units`` instances of templates that were enabled then. ``code`` is the first-start page's.
    """

    role: Role
    home: str
    owner: Owner
    units: frozenset[str] | None
    wired: tuple[str, ...] = ()
    wireless: tuple[str, ...] = ()
    built_in: tuple[str, ...] = ()
    code: str = ""

    def has_unit(self, file: str) -> bool:
        """Whether that unit file is there."""
        return self.units is None or file in self.units

    owned_files: tuple[str, ...] = ()
    owned_units: tuple[str, ...] = ()


@dataclass(frozen=True)
class GrowingPartition:
    """The one that is to fill the disk: sizes in bytes, ``room`` behind it up to the next one or the disk's end.

    It is where / is, or, on a disk with two roots, what these share. ``filesystem`` is what ext4 takes of the
    partition; None if it is no ext4.
    """

    disk: str
    number: int
    device: str
    size: int
    room: int
    filesystem: int | None


@dataclass(frozen=True)
class Condition:
    """What needs looking after at every boot, whatever the card says."""

    has_host_keys: bool
    growing: GrowingPartition | None
