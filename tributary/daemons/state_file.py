"""Saved state: private files that are replaced atomically, most of them a JSON document."""

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from tributary.daemons.logs import Level, Log
from tributary.settings.errors import CommandError, Exit, refused

T = TypeVar("T")
Tell = Callable[[str], None]
"""Receives one line for the log."""

_DAMAGED = (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)
"""Exceptions of a parser for a damaged document."""


def document_of(kind: type[T]) -> Callable[[object], T]:
    """A parser of documents that ``replace`` wrote of a ``kind``, which may be made of dataclasses.

    It raises ValueError where a value has another type, or a field without a default is missing: one that a later
    version adds has a default, so that what an earlier one wrote is read. What a later one wrote besides is ignored.
    """

    @cache
    def adapter() -> Any:
        # Not at the top, here as elsewhere: who only writes a file needs no pydantic.
        from pydantic import TypeAdapter

        return TypeAdapter(kind)

    def parse(document: object) -> T:
        from pydantic import ValidationError
        from pydantic_core import to_json

        try:
            # Strictly, which in JSON still takes lists for tuples and text for dates.
            found: T = adapter().validate_json(to_json(document), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        return found

    return parse


def to_log(log: Log) -> Tell:
    """Has the log say what is damaged."""
    return lambda what: log.event("state file damaged", Level.ERROR, reason=what)


class StateFile:
    """One such file; its directory is created with the first write."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, parse: Callable[[Any], T], tell: Tell | None = None) -> T | None:
        """The document, as ``parse`` returns it; None without a file.

        Raises CommandError, exit 71 for a damaged file, 77 for root's. With ``tell`` such a file is renamed to
        NAME.broken, reported, and counts as missing: a daemon must start without its saved state.
        """
        try:
            return self._parsed(parse)
        except CommandError as failure:
            if tell is None:
                raise
            tell(f"{failure}; {self._rename_broken()}, and counts as missing")
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
                Exit.SYSTEM, f"{self._path}: cannot be read ({error!r}): correct it or remove it"
            ) from error

    @property
    def broken(self) -> Path:
        """Where a damaged one goes."""
        return self._path.with_name(f"{self._path.name}.broken")

    def _rename_broken(self) -> str:
        try:
            self._path.rename(self.broken)
        except OSError as error:
            return f"it cannot be renamed to {self.broken.name}: {error.strerror}"
        return f"it is renamed to {self.broken.name}"

    def replace(self, document: object) -> None:
        """Replace the document; raises CommandError, exit 71."""
        from pydantic_core import to_json

        write_atomic(self._path, to_json(document, indent=1))

    def remove(self) -> None:
        """Remove the file; raises CommandError, exit 71."""
        unlink(self._path)


def write_atomic(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file by ``content`` atomically, also across a power cut; raises CommandError, exit 71.

    Whoever may read it by its ``mode`` may also enter a directory that is created for it.
    """
    new = path.with_suffix(".new")
    try:
        path.parent.mkdir(mode=mode | (mode & 0o444) >> 2, parents=True, exist_ok=True)
        with open(new, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        raise CommandError(Exit.SYSTEM, f"{path}: cannot be written: {error.strerror}") from error


def unlink(path: Path) -> None:
    """Remove ``path``, if it is there; raises CommandError, exit 71."""
    with refused(Exit.SYSTEM, path, "cannot be removed"):
        path.unlink(missing_ok=True)
