"""What is a box's own in a slot, and goes along into another: who it is, and settings that no card has."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from image.firstboot.memory import Memory
from tributary.settings.failure import Exit, Failure

_PATTERNS = ("etc/machine-id", "etc/ssh/ssh_host_*", "etc/tributary/**/*")
"""Names below a root. The rest of the settings comes from the boot partition when the new system first starts."""


def paths(root: Path) -> Iterator[Path]:
    """Files of the system below ``root``, relative to it, without those that firstboot writes by itself."""
    by_card = {path.lstrip("/") for path in Memory.read(root).files}
    for pattern in _PATTERNS:
        for path in sorted(root.glob(pattern)):
            name = path.relative_to(root)
            if path.is_file() and not path.is_symlink() and str(name) not in by_card:
                yield name


def carry(source: Path, target: Path) -> list[Path]:
    """Copy them from the system below ``source`` into that below ``target``, with owner and mode.

    Raises Failure (71) if it cannot be.
    """
    carried = list(paths(source))
    for name in carried:
        try:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name)
            found = (source / name).stat()
            os.chown(target / name, found.st_uid, found.st_gid)
        except OSError as error:
            raise Failure(Exit.SYSTEM, f"{target / name}: cannot be written: {error.strerror}") from error
    return carried
