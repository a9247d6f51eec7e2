"""What outlives a daemon: a JSON document in a file that is replaced whole."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tributary.settings.failure import Exit, Failure

T = TypeVar("T")


class StateFile:
    """One such file; its directory is made when it is first written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, parse: Callable[[Any], T]) -> T | None:
        """What ``parse`` makes of the document, None if there is none.

        Raises Failure, exit 71 if it is not ours, 77 if it is root's.
        """
        try:
            return parse(json.loads(self._path.read_text()))
        except FileNotFoundError:
            return None
        except PermissionError as error:
            raise Failure(Exit.NO_PERMISSION, f"{self._path}: can be read by root alone: use sudo") from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise Failure(Exit.SYSTEM, f"{self._path}: cannot be read ({error!r}): mend it or remove it") from error

    def replace(self, document: object) -> None:
        """Write the document; readers see the old or the new one, also after a power cut. Raises Failure, exit 71."""
        new = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with new.open("w") as file:
                json.dump(document, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as error:
            raise Failure(Exit.SYSTEM, f"{self._path}: cannot be written: {error}") from error

    def forget(self) -> None:
        """Remove the file; raises Failure, exit 71."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            raise Failure(Exit.SYSTEM, f"{self._path}: cannot be removed: {error}") from error
