"""What was applied last: a digest of the card's file, and what came of it, so that it can go again."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from image.firstboot.actions import Action, EnableUnit, WriteFile
from image.firstboot.settings import Role

PLACE = Path("var/lib/tributary/firstboot/applied.json")


@dataclass(frozen=True)
class Memory:
    """``files`` are absolute paths inside the system, ``units`` instances of templates; empty before the first time."""

    digest: str = ""
    files: tuple[str, ...] = ()
    units: tuple[str, ...] = ()

    @classmethod
    def after(cls, content_digest: str, actions: Iterable[Action]) -> Self:
        done = list(actions)
        return cls(
            content_digest,
            tuple(action.path for action in done if isinstance(action, WriteFile)),
            tuple(action.unit for action in done if isinstance(action, EnableUnit) and "@" in action.unit),
        )

    @classmethod
    def read(cls, root: Path) -> Self:
        """As it was written below ``root``; one that cannot be read is none: all is applied anew."""
        try:
            kept = json.loads((root / PLACE).read_text())
            return cls(kept["digest"], tuple(kept["files"]), tuple(kept["units"]))
        except (OSError, ValueError, KeyError, TypeError):
            return cls()

    def text(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def digest(content: bytes, role: Role) -> str:
    """Of all that decides what is applied: the card's file, and the image's role."""
    return hashlib.sha256(role.encode() + b"\0" + content).hexdigest()
