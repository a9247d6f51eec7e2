"""The disk that is written: the one door to it. Every error says where it was, and whether the disk is still there."""

import ctypes
import errno
import fcntl
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from image.flash.disk import Disk, device_path
from image.flash.sysfs import Roots
from tributary.settings.errors import CommandError, Exit

_BLKRRPART = 0x125F  # linux/fs.h: read the partition table again
_BLKFLSBUF = 0x1261  # linux/fs.h: write and forget what the page cache has of a device
_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # linux/falloc.h

_libc = ctypes.CDLL(None)


def device_number(path: Path) -> str:
    """MAJOR:MINOR of the block device at ``path``, also through links; raises CommandError (64, 69) if there is
    none.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise CommandError(
            Exit.UNAVAILABLE, f"{path}: {error.strerror}: `flash-pi --list` shows the disks that can be written"
        ) from error
    if not stat.S_ISBLK(status.st_mode):
        raise CommandError(Exit.USAGE, f"{path}: not a block device: accepted: a whole disk, such as /dev/sdb")
    return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"


@dataclass(frozen=True)
class Target:
    """An open disk. All goes past the page cache, so that little waits in memory, and what is read is on the medium."""

    disk: Disk
    fd: int
    roots: Roots

    def write(self, offset: int, data: memoryview) -> None:
        """Write ``data``, which lies at the beginning of a page; raises CommandError (69, 71)."""
        done = 0
        while done < len(data):
            try:
                done += os.pwritev(self.fd, [data[done:]], offset + done)
            except OSError as error:
                raise self._failed(f"writing at byte {offset + done}", error) from error

    def read(self, offset: int, view: memoryview) -> None:
        """Fill ``view``, which lies at the beginning of a page, from the medium; raises CommandError (69, 71)."""
        done = 0
        while done < len(view):
            try:
                count = os.preadv(self.fd, [view[done:]], offset + done)
            except OSError as error:
                raise self._failed(f"reading at byte {offset + done}", error) from error
            if count == 0:
                raise self._failed(f"reading at byte {offset + done}", OSError(errno.EIO, "the disk ends there"))
            done += count

    def zero(self, offset: int, count: int) -> bool:
        """Have the disk itself take ``count`` bytes for zeros, which takes no time; False if it cannot."""
        # A hole in a block device reads as zeros, and the kernel writes none itself (blkdev_fallocate, block/fops.c).
        mode = _PUNCH_HOLE | _KEEP_SIZE
        return bool(_libc.fallocate(self.fd, mode, ctypes.c_int64(offset), ctypes.c_int64(count)) == 0)

    def settle(self) -> None:
        """Return once all that was written is on the medium, as far as the disk tells the truth."""
        try:
            os.fsync(self.fd)
            fcntl.ioctl(self.fd, _BLKFLSBUF)
        except OSError as error:
            raise self._failed("flushing its cache", error) from error

    def read_partitions(self) -> bool:
        """Have the kernel read the partition table again; False if it would not."""
        try:
            fcntl.ioctl(self.fd, _BLKRRPART)
        except OSError:
            return False
        return True

    def _failed(self, what: str, error: OSError) -> CommandError:
        # A card that was pulled leaves its reader behind, with a size of 0; a pulled stick takes its device along.
        size = self.roots.sys / "dev/block" / self.disk.number / "size"
        if not size.exists() or int(size.read_text()) * 512 != self.disk.size:
            return CommandError(Exit.UNAVAILABLE, f"{self.disk.path}: {what}: the card or its reader is gone")
        return CommandError(
            Exit.SYSTEM, f"{self.disk.path}: {what}: {error.strerror}: the card or its reader is damaged, or worn out"
        )


@contextmanager
def opened(disk: Disk, roots: Roots, *, writing: bool, alone: bool = True) -> Iterator[Target]:
    """Open ``disk``; ``alone`` keeps all others from mounting or claiming it, and it must not be claimed now.

    Raises CommandError: 75 if somebody else has it, 69 without a medium, 71 for other errors.
    """
    flags = os.O_DIRECT | os.O_CLOEXEC | (os.O_RDWR if writing else os.O_RDONLY)
    try:
        # For a block device O_EXCL without O_CREAT means: claimed by nobody else, a mount counts as well (open(2)).
        fd = os.open(disk.path, flags | (os.O_EXCL if alone else 0))
    except OSError as error:
        raise _not_opened(disk, roots, error) from error
    try:
        yield Target(disk, fd, roots)
    finally:
        os.close(fd)


def _not_opened(disk: Disk, roots: Roots, error: OSError) -> CommandError:
    if error.errno == errno.EBUSY:
        who = ", ".join(_openers(disk, roots)) or "a mount elsewhere, or the kernel"
        return CommandError(Exit.IN_USE, f"{disk.path}: in use by {who}: stop that first")
    if error.errno in (errno.ENOMEDIUM, errno.ENXIO):
        return CommandError(Exit.UNAVAILABLE, f"{disk.path}: there is no card in it")
    return CommandError(Exit.SYSTEM, f"{disk.path}: cannot be opened: {error.strerror}")


def _openers(disk: Disk, roots: Roots) -> Iterator[str]:
    """The processes that have the disk or a partition of it open, as far as we may look."""
    paths = {device_path(name) for name in disk.names}
    for process in sorted(roots.proc.glob("[0-9]*")):
        try:
            if any(str(link.readlink()) in paths for link in (process / "fd").iterdir()):
                yield f"{(process / 'comm').read_text().strip()} (process {process.name})"
        except OSError:  # it ended in between
            continue


def page_aligned(data: bytes) -> memoryview:
    """A copy of ``data`` that begins where a page begins."""
    view = memoryview(mmap.mmap(-1, len(data)))
    view[:] = data
    return view
