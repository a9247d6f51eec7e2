"""What a plan has to know of the machine, or of the folder that holds a system. Pure."""

from dataclasses import dataclass

from image.firstboot.actions import Owner
from image.firstboot.settings import Role


@dataclass(frozen=True)
class Facts:
    """``role`` is the image's. ``units`` are the unit files that are there; None: all that an image may have.
    ``steering_group`` is the number of the group by which the console reads its settings.

    ``built_in`` are those of ``wired`` that are on the board. ``owned_files`` are what was written last time,
    ``owned_units`` instances of templates that were enabled then. ``code`` is the first-start page's. ``saved`` are
    paths of what `tributary link` and `tributary limit` have kept, each with the name of its link or path.
    """

    role: Role
    home: str
    owner: Owner
    units: frozenset[str] | None
    steering_group: int = 0
    wired: tuple[str, ...] = ()
    wireless: tuple[str, ...] = ()
    built_in: tuple[str, ...] = ()
    code: str = ""
    owned_files: tuple[str, ...] = ()
    owned_units: tuple[str, ...] = ()
    saved: tuple[tuple[str, str], ...] = ()

    def has_unit(self, file: str) -> bool:
        return self.units is None or file in self.units
