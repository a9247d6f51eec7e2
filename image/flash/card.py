"""Writing a disk and reading it back, in an order that leaves no card half done.

The first block, where the partition table is, goes first and comes last: it is overwritten with zeros before anything
else, and written when all the rest was read back and found right. So a card that was not finished has no partitions,
boots nowhere, and is mounted by no desktop. What an image leaves out is cleared before it is written: the slot for
upgrades is one such hole, and an earlier system with its secrets may lie there.
"""

import errno
import fcntl
import hashlib
import mmap
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from image.flash.disks import Device
from image.flash.source import BLOCK, CHUNK, Contents, Image, Range, chunks
from image.progress import Progress, step
from tributary.settings.errors import CommandError, Exit

TAIL = 1 << 20
"""The disk's last bytes, where RAID and partition tables are looked for, are cleared too."""

_BLKRRPART = 0x125F  # linux/fs.h: read the partition table again
_BLKZEROOUT = 0x127F  # have the disk take bytes for zeros, or write them where it cannot


@dataclass(frozen=True)
class Card:
    """An open disk. All goes past the page cache, so that little waits in memory, and what is read is on the medium."""

    disk: Device
    fd: int
    buffer: mmap.mmap  # at the beginning of a page, as open(2) asks for O_DIRECT

    def write(self, offset: int, data: bytes) -> None:
        """Raises CommandError (69, 71)."""
        self.buffer[: len(data)] = data
        self._transfer(os.pwritev, "writing", offset, len(data))

    def check(self, part: Range) -> None:
        """Raises CommandError (1) if other bytes are there, or (69, 71)."""
        self._transfer(os.preadv, "reading", part.start, part.end - part.start)
        if hashlib.sha256(self.buffer[: part.end - part.start]).hexdigest() != part.sha256:
            raise CommandError(
                Exit.WRONG_RESULT, f"{self.disk.path}: bytes {part.start} to {part.end} differ from the image"
            )

    def _transfer(self, call: Callable[[int, list[memoryview], int], int], what: str, offset: int, count: int) -> None:
        done = 0
        with memoryview(self.buffer) as view:
            while done < count:
                with self._trouble(f"{what} at byte {offset + done}"), view[done:count] as rest:
                    moved = call(self.fd, [rest], offset + done)
                    if moved == 0:
                        raise OSError(errno.EIO, "the disk ends there")
                    done += moved

    def zero(self, start: int, end: int) -> None:
        """Raises CommandError (69, 71)."""
        with self._trouble(f"clearing at byte {start}"):
            fcntl.ioctl(self.fd, _BLKZEROOUT, struct.pack("QQ", start, end - start))

    def clear(self, start: int, end: int) -> None:
        """Leave nothing of anybody's there; raises CommandError (69, 71).

        A disk that cannot forget by itself is read, which is faster than to write all: most of a card is empty.
        """
        if self.disk.forgets or not self._is_blank(start, end):
            self.zero(start, end)

    def _is_blank(self, start: int, end: int) -> bool:
        """Whether nothing was ever written there, or zeros: flash memory that is erased reads as zeros or as ones."""
        try:
            self._transfer(os.preadv, "reading", start, end - start)
        except CommandError:  # what cannot be read may be written yet, and if not, that says why
            return False
        found = self.buffer[: end - start]
        return found[:1] in (b"\x00", b"\xff") and found == found[:1] * len(found)

    def settle(self) -> None:
        """Return once all is on the medium, as far as the disk tells the truth."""
        with self._trouble("flushing its cache"):
            os.fsync(self.fd)

    def read_partitions(self) -> bool:
        """Have the kernel read the partition table again; False if it would not."""
        try:
            fcntl.ioctl(self.fd, _BLKRRPART)
        except OSError:
            return False
        return True

    @contextmanager
    def _trouble(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            # A card that was pulled leaves its reader behind, with a size of 0; a pulled stick takes its device along.
            path = self.disk.path
            if os.lseek(self.fd, 0, os.SEEK_END) != self.disk.size or not Path(path).exists():
                raise CommandError(Exit.UNAVAILABLE, f"{path}: {what}: the card or its reader is gone") from error
            worn = "the card or its reader is damaged, or worn out"
            raise CommandError(Exit.SYSTEM, f"{path}: {what}: {error.strerror}: {worn}") from error


@contextmanager
def opened(disk: Device, *, writing: bool, alone: bool = True) -> Iterator[Card]:
    """Open ``disk``; ``alone`` keeps all others from mounting or claiming it, and it must not be claimed now.

    Raises CommandError: 75 if somebody else has it, 69 without a medium, 71 for other errors.
    """
    try:
        # For a block device O_EXCL without O_CREAT means: claimed by nobody else, a mount counts as well (open(2)).
        flags = os.O_DIRECT | (os.O_RDWR if writing else os.O_RDONLY)
        fd = os.open(disk.path, flags | (os.O_EXCL if alone else 0))
    except OSError as error:
        if error.errno == errno.EBUSY:
            who = ", ".join(_openers(disk)) or "a mount elsewhere, or the kernel"
            raise CommandError(Exit.IN_USE, f"{disk.path}: in use by {who}: stop that first") from error
        if error.errno in (errno.ENOMEDIUM, errno.ENXIO):
            raise CommandError(Exit.UNAVAILABLE, f"{disk.path}: there is no card in it") from error
        raise CommandError(Exit.SYSTEM, f"{disk.path}: cannot be opened: {error.strerror}") from error
    try:
        yield Card(disk, fd, mmap.mmap(-1, CHUNK))
    finally:
        os.close(fd)


def _openers(disk: Device) -> Iterator[str]:
    """The processes that have the disk or what stands on it open, as far as we may look."""
    paths = {each.path for each in disk.all}
    for process in sorted(Path("/proc").glob("[0-9]*")):
        try:
            if any(str(link.readlink()) in paths for link in (process / "fd").iterdir()):
                yield f"{(process / 'comm').read_text().strip()} (process {process.name})"
        except OSError:  # it ended in between
            continue


def write(image: Image, contents: Contents, card: Card, progress: Progress) -> None:
    """Write ``contents`` and prove that they are there; raises CommandError (1, 66, 69, 71), which says what is
    left."""
    first = contents.chunks[0]
    try:
        card.zero(0, BLOCK)
        card.settle()
        _clear(contents, card, progress)
        head = _write_rest(image, contents, card, progress)
        card.settle()
        compare(contents.chunks[1:], card, progress, "4/4")
        with _first_block_or_none(card):
            card.write(0, head)
            card.settle()
            card.check(first)
    except BaseException as error:  # Ctrl-C and SIGTERM as well
        left = "does not boot as it is: the old contents are lost, the new ones not whole"
        error.add_note(f"{card.disk.path} {left}")
        raise


def _clear(contents: Contents, card: Card, progress: Progress) -> None:
    end = card.disk.size
    gaps = [*contents.gaps, (max(contents.size, end - TAIL), end)]
    with step(progress, "clear", "2/4", sum(end - start for start, end in gaps)) as advance:
        for start, end in gaps:
            for offset in range(start, end, CHUNK):
                count = min(CHUNK, end - offset)
                card.clear(offset, offset + count)
                advance(count)


def _write_rest(image: Image, contents: Contents, card: Card, progress: Progress) -> bytes:
    """Write all but the first block, which is returned."""
    head = b""
    with step(progress, "write", "3/4", contents.bytes) as advance, closing(chunks(image)) as parts:
        for (offset, data), known in zip(parts, contents.chunks, strict=True):
            if hashlib.sha256(data).hexdigest() != known.sha256:
                raise CommandError(Exit.NO_INPUT, f"{image.path}: it was changed while it was written")
            if offset:
                card.write(offset, data)
            else:
                head = data
            advance(len(data))
    return head


@contextmanager
def _first_block_or_none(card: Card) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(CommandError):
            card.zero(0, BLOCK)
        raise


def compare(parts: Sequence[Range], card: Card, progress: Progress, place: str) -> None:
    """Read ``parts`` back from the medium; raises CommandError (1) that names the first bytes that differ."""
    with step(progress, "read back", place, sum(part.end - part.start for part in parts)) as advance:
        for part in parts:
            card.check(part)
            advance(part.end - part.start)
