"""The block map beside an image: which of its blocks hold anything, and their checksums (bmap-tools, format 2.0)."""

import hashlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

BLOCK = 4096
"""What the size of a block must be a multiple of, in bytes: what writing past the page cache asks for, at the most."""

_CHECKSUM = re.compile(r"[0-9a-f]{64}")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True)
class Range:
    """Bytes from ``start`` up to ``end`` of an image, and their SHA-256 in hexadecimal, if it is known."""

    start: int
    end: int
    sha256: str | None


@dataclass(frozen=True)
class Contents:
    """An image of ``size`` bytes, of which ``ranges`` matter, in their order."""

    size: int
    ranges: tuple[Range, ...]

    @property
    def mapped(self) -> int:
        """How many bytes matter."""
        return sum(part.end - part.start for part in self.ranges)

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """Beginnings and ends of what does not matter, in bytes."""
        ends, starts = [0, *(part.end for part in self.ranges)], [*(part.start for part in self.ranges), self.size]
        return tuple((end, start) for end, start in zip(ends, starts, strict=True) if end < start)


def parse(raw: bytes) -> Contents:
    """Read a block map; raises ValueError that says what is wrong with it."""
    try:
        root = ElementTree.fromstring(raw)
    except ElementTree.ParseError as error:
        raise ValueError(f"not XML: {error}") from error
    if root.tag != "bmap" or root.get("version") != "2.0":
        raise ValueError(f"a {root.tag} of version {root.get('version')}: accepted: a bmap of version 2.0")
    if _field(root, "ChecksumType") != "sha256":
        raise ValueError(f"checksums of type {_field(root, 'ChecksumType')}: accepted: sha256")
    _check_own_checksum(raw, _field(root, "BmapFileChecksum"))
    size, block, count = (_number(root, name) for name in ("ImageSize", "BlockSize", "BlocksCount"))
    if block == 0 or block % BLOCK or count != -(-size // block):
        raise ValueError(f"{size} bytes in {count} blocks of {block}: accepted: blocks of a multiple of {BLOCK} bytes")
    ranges = tuple(_range(element, size, block) for element in root.iterfind("BlockMap/Range"))
    _check_order(ranges, size, _number(root, "MappedBlocksCount"), block)
    return Contents(size, ranges)


def _check_own_checksum(raw: bytes, told: str) -> None:
    """The map's own checksum is that of the file with zeros in its place."""
    if not _CHECKSUM.fullmatch(told) or hashlib.sha256(raw.replace(told.encode(), b"0" * 64, 1)).hexdigest() != told:
        raise ValueError("its own checksum does not match: it is damaged")


def _check_order(ranges: Sequence[Range], size: int, blocks: int, block: int) -> None:
    if not ranges or ranges[0].start != 0:
        raise ValueError("its first block is not mapped, where the partition table is")
    if any(part.end <= part.start for part in ranges) or ranges[-1].end > size:
        raise ValueError("a range ends before it begins, or after the image")
    if any(before.end > after.start for before, after in itertools.pairwise(ranges)):
        raise ValueError("its ranges are not in order")
    if sum(-(-(part.end - part.start) // block) for part in ranges) != blocks:
        raise ValueError("its ranges do not add up to MappedBlocksCount")


def _range(element: ElementTree.Element, size: int, block: int) -> Range:
    """``first-last`` or ``only``, in blocks; the image may end within the last one."""
    match = _RANGE.fullmatch((element.text or "").strip())
    checksum = element.get("chksum")
    if match is None or (checksum is not None and not _CHECKSUM.fullmatch(checksum)):
        raise ValueError(f"the range {element.text!r} with the checksum {checksum}: accepted: 3-5, a SHA-256")
    end = (int(match[2] or match[1]) + 1) * block
    return Range(int(match[1]) * block, size if size < end < size + block else end, checksum)


def _field(root: ElementTree.Element, name: str) -> str:
    text = root.findtext(name)
    if text is None:
        raise ValueError(f"it has no {name}")
    return text.strip()


def _number(root: ElementTree.Element, name: str) -> int:
    text = _field(root, name)
    if not text.isdecimal():
        raise ValueError(f"{name} is {text!r}: accepted: a whole number")
    return int(text)
