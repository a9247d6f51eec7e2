"""What was applied last: a digest of the card's file, and what came of it, so that it can go again."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic_core import to_json

from image.firstboot.actions import Action, EnableUnit, WriteFile
from image.firstboot.settings import Role
from tributary.daemons.state_file import StateFile, Tell, document_of
from tributary.settings.errors import CommandError

PLACE = Path("var/lib/tributary/firstboot/applied.json")


@dataclass(frozen=True)
class Memory:
    """``files`` are absolute paths inside the system, ``units`` instances of templates."""

    digest: str
    files: tuple[str, ...]
    units: tuple[str, ...]

    @classmethod
    def after(cls, content_digest: str, actions: Iterable[Action]) -> Self:
        done = list(actions)
        return cls(
            content_digest,
            tuple(action.path for action in done if isinstance(action, WriteFile)),
            tuple(action.unit for action in done if isinstance(action, EnableUnit) and "@" in action.unit),
        )

    def during(self, actions: Iterable[Action]) -> Self:
        """While ``actions`` are done after these: with no file's digest, and what either has written."""
        new = self.after("", actions)
        files, units = (dict.fromkeys(each) for each in ((*self.files, *new.files), (*self.units, *new.units)))
        return type(self)("", tuple(files), tuple(units))

    def text(self) -> str:
        return f"{to_json(self, indent=1).decode()}\n"


NOTHING = Memory("", (), ())
"""Before the first time."""
_READ = document_of(Memory)


def read(root: Path, tell: Tell | None = None) -> Memory:
    """As it was written below ``root``. A damaged one counts as missing, and all is applied anew.

    With ``tell`` such a file is renamed and reported.
    """
    try:
        return StateFile(root / PLACE).read(_READ, tell) or NOTHING
    except CommandError:
        return NOTHING


def digest(content: bytes, role: Role) -> str:
    """Of all that decides what is applied: the card's file, and the image's role."""
    return hashlib.sha256(role.encode() + b"\0" + content).hexdigest()
