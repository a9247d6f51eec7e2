"""Writing and reading back, in an order that leaves no card half done.

The first block, where the partition table is, goes first and comes last: it is overwritten with zeros before anything
else, and written when all the rest was read back and found right. So a card that was not finished has no partitions,
boots nowhere, and is mounted by no desktop. What an image leaves out is cleared before it is written: the slot for
upgrades is one such hole, and an earlier system with its secrets may lie there.
"""

import mmap
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from image.flash.bmap import BLOCK, Contents
from image.flash.image_file import CHUNK, Image, chunks
from image.flash.report import Report
from image.flash.target import Target, page_aligned
from tributary.settings.errors import CommandError, Exit

_TAIL = 1 << 20


def flash(image: Image, contents: Contents, target: Target, report: Report) -> None:
    """Write ``contents`` and prove that they are there; raises CommandError (1, 66, 69, 71), which says what is
    left.
    """
    with _useless_until_done(target):
        target.write(0, page_aligned(bytes(BLOCK)))
        target.settle()
        _clear(contents, target, report)
        first = _write_rest(image, contents, target, report)
        target.settle()
        compare(image, contents, target, report, start=BLOCK)
        _write_first(target, first)


@contextmanager
def _useless_until_done(target: Target) -> Iterator[None]:
    try:
        yield
    except BaseException as error:  # Ctrl-C and SIGTERM as well
        error.add_note(f"{target.disk.path} does not boot as it is: the old contents are lost, the new ones not whole")
        raise


def _clear(contents: Contents, target: Target, report: Report) -> None:
    """Nothing of anybody's is left where ``contents`` leave something out, nor in the disk's last bytes, where RAID and
    partition tables are looked for. A disk that cannot forget by itself is read there, which is faster than to write
    all: a card has little in most places."""
    end = target.disk.size
    gaps = [*contents.gaps, (max(contents.size, end - _TAIL), end)]
    buffer, zeros, done = memoryview(mmap.mmap(-1, CHUNK)), page_aligned(bytes(CHUNK)), 0
    with report.step("clear", sum(end - start for start, end in gaps)) as advance:
        for start, end in gaps:
            for offset in range(start, end, CHUNK):
                count = min(CHUNK, end - offset)
                if not target.zero(offset, count) and not _is_blank(target, offset, buffer[:count]):
                    target.write(offset, zeros[:count])
                done += count
                advance(done)


def _is_blank(target: Target, offset: int, view: memoryview) -> bool:
    """Whether nothing was ever written there, or zeros: flash memory that is erased reads as zeros or as ones."""
    try:
        target.read(offset, view)
    except CommandError:  # what cannot be read may be written yet, and if not, that says why
        return False
    found = bytes(view)
    return found[:1] in (b"\x00", b"\xff") and found == found[:1] * len(found)


def _write_rest(image: Image, contents: Contents, target: Target, report: Report) -> bytes:
    """Write all but the first block, which is returned."""
    first, done = b"", 0
    with report.step("write", contents.mapped) as advance, closing(chunks(image, contents)) as parts:
        for offset, data in parts:
            if offset == 0:
                first = bytes(data[:BLOCK])
                target.write(BLOCK, data[BLOCK:])
            else:
                target.write(offset, data)
            done += len(data)
            advance(done)
    return first


def _write_first(target: Target, first: bytes) -> None:
    try:
        target.write(0, page_aligned(first))
        target.settle()
        found = page_aligned(bytes(len(first)))
        target.read(0, found)
        _check_equal(target, 0, memoryview(first), found)
    except BaseException:
        with suppress(CommandError):
            target.write(0, page_aligned(bytes(BLOCK)))
        raise


def compare(image: Image, contents: Contents, target: Target, report: Report, start: int = 0) -> None:
    """Read ``contents`` back from the medium, from the byte ``start`` on; raises CommandError (1) that names the first
    byte that differs, or as ``chunks`` and ``Target.read`` do."""
    buffer = memoryview(mmap.mmap(-1, CHUNK))
    done = 0
    with report.step("read back", contents.mapped) as advance, closing(chunks(image, contents)) as parts:
        for offset, data in parts:
            found = buffer[: len(data)]
            target.read(offset, found)
            skipped = max(0, start - offset)
            _check_equal(target, offset + skipped, data[skipped:], found[skipped:])
            done += len(data)
            advance(done)


def _check_equal(target: Target, offset: int, wanted: memoryview, found: memoryview) -> None:
    ours, theirs = bytes(wanted), bytes(found)  # to compare bytes is a hundred times faster than views
    if ours == theirs:
        return
    first = next(index for index, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1])
    raise CommandError(
        Exit.WRONG_RESULT,
        f"{target.disk.path}: byte {offset + first} differs from the image: {theirs[first]:#04x} instead of"
        f" {ours[first]:#04x}",
    )
