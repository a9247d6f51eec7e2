"""What outlives a daemon: a JSON document in a file that is replaced whole, and that root alone reads."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tributary.settings.errors import CommandError, Exit

T = TypeVar("T")
Tell = Callable[[str], None]
"""Is told one line."""

_DAMAGED = (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)
"""What a parser raises for a document that is not its own."""


class StateFile:
    """One such file; its directory is made when it is first written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, parse: Callable[[Any], T], tell: Tell | None = None) -> T | None:
        """What ``parse`` makes of the document, None if there is none.

        Raises CommandError, exit 71 if it is not ours, 77 if it is root's. But with ``tell``, such a file is renamed to
        NAME.broken and told, and counts as none: a daemon does not stay down for what it has noted.
        """
        try:
            return self._parsed(parse)
        except CommandError as failure:
            if tell is None:
                raise
            tell(f"{failure}; {self._set_aside()}, and what it held counts as nothing")
            return None

    def _parsed(self, parse: Callable[[Any], T]) -> T | None:
        try:
            return parse(json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except PermissionError as error:
            raise CommandError(Exit.NO_PERMISSION, f"{self._path}: can be read by root alone: use sudo") from error
        except _DAMAGED as error:
            raise CommandError(
                Exit.SYSTEM, f"{self._path}: cannot be read ({error!r}): mend it or remove it"
            ) from error

    def _set_aside(self) -> str:
        broken = self._path.with_name(f"{self._path.name}.broken")
        try:
            self._path.rename(broken)
        except OSError as error:
            return f"it cannot be set aside as {broken.name}: {error.strerror}"
        return f"it is set aside as {broken.name}"

    def replace(self, document: object) -> None:
        """Write the document; readers see the old or the new one, also after a power cut. Raises CommandError, exit
        71.
        """
        new = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with open(new, "w", encoding="utf-8", opener=_private) as file:
                json.dump(document, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as error:
            raise CommandError(Exit.SYSTEM, f"{self._path}: cannot be written: {error}") from error

    def forget(self) -> None:
        """Remove the file; raises CommandError, exit 71."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            raise CommandError(Exit.SYSTEM, f"{self._path}: cannot be removed: {error}") from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
