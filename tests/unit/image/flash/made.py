"""Images, maps and checksums that tests write to disks."""

import hashlib
import itertools
import random
import struct
import subprocess
import zlib
from collections.abc import Sequence
from pathlib import Path

from image.flash.source import BLOCK

MB = 10**6


def disk_image(blocks: int, seed: int = 1, holes: Sequence[range] = ()) -> bytes:
    """A disk image of 4096-byte blocks: a partition table with one FAT partition, noise, and zeros in ``holes``."""
    noise = bytearray(random.Random(seed).randbytes(blocks * BLOCK))
    for hole in holes:
        noise[hole.start * BLOCK : hole.stop * BLOCK] = bytes(len(hole) * BLOCK)
    noise[:512] = mbr((0x00, 0x0C, 8, blocks * BLOCK // 512 - 8))
    return bytes(noise)


def mbr(*partitions: tuple[int, int, int, int]) -> bytes:
    """A boot sector with ``partitions``: status, type, first sector, sectors."""
    entries = b"".join(struct.pack("<B3xB3xII", *entry) for entry in partitions)
    return bytes(446) + entries.ljust(64, b"\0") + b"\x55\xaa"


def gpt(sectors: int) -> bytes:
    """The first two sectors of a disk of ``sectors`` with an empty GPT."""
    head = struct.pack("<8sIIIIQQ", b"EFI PART", 0x10000, 92, 0, 0, 1, sectors - 1).ljust(92, b"\0")
    checksum = struct.pack("<I", zlib.crc32(head))
    return mbr((0, 0xEE, 1, 0xFFFFFFFF)) + (head[:16] + checksum + head[20:]).ljust(512, b"\0")


def bmap_of(image: bytes, ranges: Sequence[tuple[int, int]]) -> bytes:
    """The block map of ``image``, in which the blocks from the first to the last of each of ``ranges`` are mapped."""
    rows = []
    for first, last in ranges:
        checksum = hashlib.sha256(image[first * BLOCK : (last + 1) * BLOCK]).hexdigest()
        rows.append(f'<Range chksum="{checksum}"> {first if first == last else f"{first}-{last}"} </Range>')
    mapped = sum(last - first + 1 for first, last in ranges)
    return sealed(
        f"""<?xml version="1.0" ?>
<bmap version="2.0">
    <ImageSize> {len(image)} </ImageSize>
    <BlockSize> {BLOCK} </BlockSize>
    <BlocksCount> {-(-len(image) // BLOCK)} </BlocksCount>
    <MappedBlocksCount> {mapped}    </MappedBlocksCount>
    <ChecksumType> sha256 </ChecksumType>
    <BmapFileChecksum> {"0" * 64} </BmapFileChecksum>
    <BlockMap>
        {" ".join(rows)}
    </BlockMap>
</bmap>
"""
    )


def sealed(text: str) -> bytes:
    """A block map with its own checksum in the place of the zeros."""
    return text.replace("0" * 64, hashlib.sha256(text.encode()).hexdigest(), 1).encode()


def ranges_without(blocks: int, holes: Sequence[range]) -> list[tuple[int, int]]:
    """The mapped ranges of an image with ``holes``."""
    edges = [0, *itertools.chain.from_iterable((hole.start, hole.stop) for hole in holes), blocks]
    return [(first, end - 1) for first, end in zip(edges[::2], edges[1::2], strict=True)]


def files(folder: Path, image: bytes, *, packed: bool = True, checksum: bool = True, bmap: bytes = b"") -> Path:
    """An image as it is delivered: packed by zstd, with its checksum and its map beside it. Returns its path."""
    path = folder / "card.img"
    path.write_bytes(image)
    if packed:
        subprocess.run(["zstd", "-q", "-1", "--rm", path], check=True)
        path = folder / "card.img.zst"
    if checksum:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        path.with_name(f"{path.name}.sha256").write_text(f"{digest}  {path.name}\n")
    if bmap:
        (folder / "card.img.bmap").write_bytes(bmap)
    return path
