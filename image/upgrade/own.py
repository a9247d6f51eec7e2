"""What is a box's own in a slot, and goes along into another: who it is, and settings; and notes on a slot's trial."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from image.firstboot import memory
from tributary.settings.errors import CommandError, Exit

_PATTERNS = ("etc/machine-id", "etc/ssh/ssh_host_*", "etc/tributary/**/*")
"""Names below a root. The rest of the settings comes from the boot partition when the new system first starts."""
_CONFFILE = re.compile(r"^ /(etc/tributary/\S+) ([0-9a-f]{32})(?: obsolete)?$", re.MULTILINE)
"""A line of the field Conffiles in dpkg's database: deb-conffiles(5), dpkg-query(1)."""
_ACCOUNT = re.compile(r"^([^:\n]+):[^:\n]*:(\d+):", re.MULTILINE)
"""A line of passwd(5) or group(5): its name and number."""
FOLDER = Path("var/lib/tributary/upgrade")
"""Below the slot's root: each slot has its own."""


def paths(root: Path) -> Iterator[Path]:
    """Files of the system below ``root``, relative to it.

    Without those that firstboot writes, and those that are as their package brought them: the new version has its own.
    """
    by_card = {path.lstrip("/") for path in memory.read(root).files}
    defaults = _defaults(root)
    for pattern in _PATTERNS:
        for path in sorted(root.glob(pattern)):
            name = path.relative_to(root)
            if path.is_symlink() or not path.is_file() or str(name) in by_card:
                continue
            if defaults.get(str(name)) != hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest():
                yield name


def _defaults(root: Path) -> dict[str, str]:
    """The MD5 of each setting as its package brought it; none where dpkg's database cannot be read."""
    try:
        status = (root / "var/lib/dpkg/status").read_text(errors="replace")
    except OSError:
        return {}
    return dict(_CONFFILE.findall(status))


def carry(source: Path, target: Path) -> list[Path]:
    """Copy them from the system below ``source`` into that below ``target``, with mode, and owner and group by name, as
    have the folders that they need.

    Raises CommandError (71) if it cannot be.
    """
    carried = list(paths(source))
    users, groups = (_renumbered(source / file, target / file) for file in ("etc/passwd", "etc/group"))

    def own(name: Path) -> None:
        found = (source / name).stat()
        os.chown(target / name, users.get(found.st_uid, 0), groups.get(found.st_gid, 0))
        (target / name).chmod(found.st_mode & 0o7777)

    for name in carried:
        try:
            for folder in reversed(name.parents):
                if not (target / folder).exists():
                    (target / folder).mkdir(0o700)
                    own(folder)
            shutil.copy2(source / name, target / name)
            own(name)
        except OSError as error:
            # Of a copy it names the source first, and here the target is full.
            raise CommandError(Exit.SYSTEM, f"{target / name}: cannot be written: {error.strerror}") from error
    return carried


def _renumbered(source: Path, target: Path) -> dict[int, int]:
    """From the numbers of ``source`` to those of the same names in ``target``; root's, 0, where it has no such name."""
    there = _numbers(target)
    # Of several names for a number, the first is the one that is shown.
    return {number: there.get(name, 0) for name, number in reversed(_numbers(source).items())}


def _numbers(file: Path) -> dict[str, int]:
    """By name; none where the file cannot be read."""
    with suppress(OSError):
        return {name: int(number) for name, number in _ACCOUNT.findall(file.read_text(errors="replace"))}
    return {}


@dataclass(frozen=True)
class Trial:
    """The notes in the slot below ``root``."""

    root: Path

    @property
    def on(self) -> bool:
        """It was installed, and was not yet found good. tributary-upgrade-back.service asks for the same file."""
        return (self.root / FOLDER / "on-trial").exists()

    @property
    def reason(self) -> str:
        """Why it was given up; empty if it was not."""
        path = self.root / FOLDER / "given-up"
        return path.read_text().strip() if path.exists() else ""

    def begin(self) -> None:
        self._write("on-trial", "")

    def passed(self) -> None:
        (self.root / FOLDER / "on-trial").unlink(missing_ok=True)

    def failed(self, reason: str) -> None:
        self._write("given-up", f"{reason}\n")

    def _write(self, name: str, text: str) -> None:
        (self.root / FOLDER).mkdir(parents=True, exist_ok=True)
        (self.root / FOLDER / name).write_text(text)
