"""A block map of an image (bmap-tools, format 2.0): which blocks are to be written, with their checksums.

A block counts unless the image has a hole there. The file systems are made so that only what they do not use is a hole
(disk.py): a block that holds zeros and matters is written as zeros.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCK = 4096
_CHUNK = 4 << 20
_ZEROS = "0" * 64


@dataclass(frozen=True)
class Mapped:
    """Blocks from ``first`` to ``last``, both included, and their SHA-256."""

    first: int
    last: int
    sha256: str


def mapped(path: Path, advance: Callable[[int], None] = lambda _: None) -> tuple[Mapped, ...]:
    """The ranges of ``path`` that are no holes. ``advance`` gets how many of the file's bytes are behind it."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        return tuple(
            _checked(file.fileno(), first, last, size, advance) for first, last in _blocks(_data(file.fileno()))
        )


def _data(file: int) -> Iterator[tuple[int, int]]:
    """Beginnings and ends of what is no hole (lseek(2))."""
    end = 0
    while True:
        try:
            start = os.lseek(file, end, os.SEEK_DATA)
        except OSError:  # ENXIO: there is none behind
            return
        end = os.lseek(file, start, os.SEEK_HOLE)
        yield start, end


def _blocks(ranges: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """First and last blocks; ranges that meet in a block, or touch, are one. The first block always counts."""
    found = [(0, 0)]
    for start, end in ranges:
        first, last = start // BLOCK, (end - 1) // BLOCK
        if first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def _checked(file: int, first: int, last: int, size: int, advance: Callable[[int], None]) -> Mapped:
    digest, offset, end = hashlib.sha256(), first * BLOCK, min((last + 1) * BLOCK, size)
    while offset < end:
        data = os.pread(file, min(_CHUNK, end - offset), offset)
        digest.update(data)
        offset += len(data)
        advance(offset)
    return Mapped(first, last, digest.hexdigest())


def text(ranges: tuple[Mapped, ...], size: int) -> str:
    """The map of an image of ``size`` bytes. Its own checksum is that of the file with zeros in its place."""
    count = sum(each.last - each.first + 1 for each in ranges)
    listed = "\n".join(f'        <Range chksum="{each.sha256}">{_span(each)}</Range>' for each in ranges)
    body = f"""\
<?xml version="1.0" ?>
<bmap version="2.0">
    <ImageSize>{size}</ImageSize>
    <BlockSize>{BLOCK}</BlockSize>
    <BlocksCount>{-(-size // BLOCK)}</BlocksCount>
    <MappedBlocksCount>{count}</MappedBlocksCount>
    <ChecksumType>sha256</ChecksumType>
    <BmapFileChecksum>{_ZEROS}</BmapFileChecksum>
    <BlockMap>
{listed}
    </BlockMap>
</bmap>
"""
    return body.replace(_ZEROS, hashlib.sha256(body.encode()).hexdigest(), 1)


def _span(each: Mapped) -> str:
    return str(each.first) if each.first == each.last else f"{each.first}-{each.last}"
