"""The boot partition of a Raspberry Pi with two slots: the files with the choice, and each slot's folder.

FAT keeps no order between what is written, so each step is on the card before the next one begins.
"""

import filecmp
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from image.upgrade.choice import BACK, CONFIG, STATES, Choice, naming, states
from tributary.daemons.state_file import unlink, write_atomic
from tributary.kernel import process
from tributary.settings.errors import CommandError, Exit, refused

BOOT = Path("/boot/firmware")
KERNEL, INITRAMFS, COMMAND_LINE = "vmlinuz", "initrd.img", "cmdline.txt"
"""In each slot's folder, with the device trees; the line belongs to the disk, and is not changed."""

_NEW = ".new"
_TREES = "bcm*.dtb"
# The chip's names in Debian's kernel and in Raspberry Pi's. The firmware prefers the first (upstream_kernel=1); which
# one it looks for when it asks itself whether the folder will do, its documentation leaves open (os_prefix there).
_CHIPS = {"bcm2837-": "bcm2710-"}


@dataclass(frozen=True)
class BootPartition:
    """It is mounted at ``place``."""

    place: Path

    def read(self) -> Choice:
        """What it says; raises CommandError (71) if that is none."""
        back = self._text(BACK) if (self.place / BACK).exists() else None
        return Choice.of(self._text(CONFIG), back, self._text(STATES))

    def write(self, choice: Choice) -> None:
        """Have it say that; raises CommandError (71). Power may go at any time: it never says what nobody chose."""
        config = self._text(CONFIG)
        self._put(STATES, states(choice.good))
        if choice.back:
            self._put(BACK, naming(config, choice.back))
        self._put(CONFIG, naming(config, choice.first))
        if not choice.back:
            self._remove(BACK)

    def _text(self, name: str) -> str:
        try:
            return (self.place / name).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(Exit.SYSTEM, f"{self.place / name}: cannot be read: {error}") from error

    def _put(self, name: str, text: str) -> None:
        path = self.place / name
        with suppress(OSError, UnicodeDecodeError):
            if path.read_text() == text:
                return
        put(path, text.encode())

    def _remove(self, name: str) -> None:
        unlink(self.place / name)
        _settle(self.place)


def put(path: Path, content: bytes) -> None:
    """Have ``content`` there, also across a power cut; raises CommandError (71)."""
    write_atomic(path, content)
    _settle(path.parent)


def fill(root: Path, folder: Path) -> None:
    """Kernel, initramfs and device trees of the system below ``root`` into its slot's ``folder``, which is there.

    The new ones are all there, too, before the first takes its place. Raises CommandError (71).
    """
    sources = dict(_sources(root))
    with refused(Exit.SYSTEM, folder, ""):
        there = {name for name in sources if (folder / name).exists()}
        same = {name for name in there if filecmp.cmp(sources[name], folder / name, shallow=False)}
        fresh = [name for name in sources if name not in same]
        for name in fresh:
            with sources[name].open("rb") as given, (folder / (name + _NEW)).open("wb") as taken:
                shutil.copyfileobj(given, taken, 1 << 20)
        _settle(folder)
        for name in fresh:
            (folder / (name + _NEW)).replace(folder / name)
        for path in (*folder.glob(_TREES), *folder.glob(f"*{_NEW}")):
            if path.name not in sources:
                path.unlink()
        _settle(folder)


def _sources(root: Path) -> Iterator[tuple[str, Path]]:
    """Names in the folder, with the files that they are copies of: those of the kernel that /vmlinuz leads to."""
    for name in (KERNEL, INITRAMFS):
        link = root / name
        if not link.is_symlink():
            raise CommandError(Exit.SYSTEM, f"{link}: not there: linux-update-symlinks(1) makes it")
        # Of that system, not of the one that runs.
        yield name, root / str(link.readlink()).lstrip("/")
    version = (root / KERNEL).readlink().name.removeprefix(f"{KERNEL}-")
    trees = sorted((root / f"usr/lib/linux-image-{version}/broadcom").glob(_TREES))
    if not trees:
        raise CommandError(Exit.SYSTEM, f"{root}: its kernel {version} has no device trees for a Raspberry Pi")
    for tree in trees:
        yield tree.name, tree
        for ours, theirs in _CHIPS.items():
            if tree.name.startswith(ours):
                yield tree.name.replace(ours, theirs), tree


def _settle(place: Path) -> None:
    """All that was written to the file system of ``place`` is on the card: of FAT, fsync(2) knows too little."""
    process.output(["sync", "--file-system", str(place)], timeout=900.0)  # a slow card
