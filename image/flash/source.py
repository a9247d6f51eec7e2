"""The image: is it whole, and its bytes in their order. Its file is opened once, so that nobody exchanges it later."""

import hashlib
import io
import os
import re
import stat
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from image import partitions
from tributary.kernel.process import require
from tributary.settings.errors import CommandError, Exit, refused

BLOCK = 4096
CHUNK = 4 << 20
"""How much is read, written and compared at once, in bytes; of the first chunk the first block alone."""


_PACKERS = {
    bytes.fromhex("28b52ffd"): "zstd",  # RFC 8878 section 3.1.1
    b"\xfd7zXZ\0": "xz",  # The .xz File Format, section 2.1.1.1
    b"\x1f\x8b\x08": "gzip",  # RFC 1952 section 2.3.1
    b"BZh": "bzip2",
}
"""First bytes of a packed image, and the program that unpacks it."""
_ARCHIVES = {b"PK\x03\x04": "unzip", b"7z\xbc\xaf\x27\x1c": "7z x"}
"""First bytes of what may hold several files, and the command that unpacks it."""
_BESIDE_LIMIT = 64 << 20  # the map of a gigabyte has some hundred kilobytes
_ZEROS = b"0" * 64


@dataclass(frozen=True)
class Range:
    """Bytes from ``start`` up to ``end``, and their SHA-256; a map may leave that out."""

    start: int
    end: int
    sha256: str | None


@dataclass(frozen=True)
class Image:
    """An open image file: its own size in bytes, what unpacks it if it is packed, and whether it has a checksum.

    ``size`` and ``mapped``, the ranges that matter, are those of the block map; without one, None.
    """

    path: Path
    file: io.FileIO
    bytes: int
    packer: str
    checksum: bool
    size: int | None
    mapped: tuple[Range, ...] | None


@dataclass(frozen=True)
class Contents:
    """An image of ``size`` bytes: its chunks that matter, in their order, each with the checksum that it had when the
    image was checked."""

    size: int
    chunks: tuple[Range, ...]

    @property
    def bytes(self) -> int:
        """How many matter."""
        return sum(each.end - each.start for each in self.chunks)

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """Beginnings and ends of what does not matter."""
        ends, starts = [0, *(each.end for each in self.chunks)], [*(each.start for each in self.chunks), self.size]
        return tuple((end, start) for end, start in zip(ends, starts, strict=True) if end < start)


@contextmanager
def opened(path: Path) -> Iterator[Image]:
    """The image at ``path``, whose checksum was found right if it has one; raises CommandError (66, 69)."""
    with _file(path) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise CommandError(
                Exit.NO_INPUT, f"{path}: not a file: accepted: an image, .img or packed as .img.zst, .xz, .gz or .bz2"
            )
        packer = _packer(path, file.read(8))
        has_checksum = _has_checksum(path, file)
        size, mapped = _map_beside(path)
        yield Image(path, file, status.st_size, packer, has_checksum, size, mapped)


def _file(path: Path) -> io.FileIO:
    with refused(Exit.NO_INPUT, path):
        return io.FileIO(path)


def _packer(path: Path, head: bytes) -> str:
    """The program that unpacks the file at ``path``, which begins with ``head``; empty if it is not packed."""
    for magic, command in _ARCHIVES.items():
        if head.startswith(magic):
            accepted = f"accepted: the image in it, by {command} {path.name}"
            raise CommandError(Exit.NO_INPUT, f"{path}: an archive: {accepted}")
    program = next((each for magic, each in _PACKERS.items() if head.startswith(magic)), "")
    if program:
        require(program)
    return program


def _has_checksum(image: Path, file: io.FileIO) -> bool:
    """Whether the open ``image`` has one beside it, of sha256sum(1); raises CommandError (66) if it differs."""
    beside = image.with_name(image.name + ".sha256")
    if not beside.exists():
        return False
    with _file(beside) as given:
        listed = given.read(_BESIDE_LIMIT).decode(errors="replace")
    # Lines for other files say nothing of this one.
    name = rf"(?:.*/)?{re.escape(image.name)}"
    line = rf"^(?:([0-9a-fA-F]{{64}}) [ *]{name}|SHA256 \({name}\) = ([0-9a-fA-F]{{64}}))\r?$"
    known = {"".join(found).lower() for found in re.findall(line, listed, re.MULTILINE)}
    if not known:
        hint = "give it the name that it was downloaded by"
        raise CommandError(Exit.NO_INPUT, f"{image}: its checksum does not match: {beside.name} has none of it: {hint}")
    with refused(Exit.NO_INPUT, image):
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if known != {digest}:
        raise CommandError(Exit.NO_INPUT, f"{image}: its checksum does not match {beside.name}: download it again")
    return True


def _map_beside(image: Path) -> tuple[int, tuple[Range, ...]] | tuple[None, None]:
    """The block map next to ``image``: NAME.img.zst.bmap, NAME.img.bmap or NAME.bmap."""
    names = (image.name, image.stem, image.stem.removesuffix(".img"))
    path = next((each for each in (image.with_name(f"{name}.bmap") for name in names) if each.exists()), None)
    if path is None:
        return None, None
    with _file(path) as file:
        raw = file.read(_BESIDE_LIMIT)
    try:
        return block_map(raw)
    except (ElementTree.ParseError, KeyError, ValueError) as error:
        raise CommandError(Exit.NO_INPUT, f"{path}: not a whole block map of version 2.0: {error}") from error


def block_map(raw: bytes) -> tuple[int, tuple[Range, ...]]:
    """The image's size and what of it matters (bmap-tools, format 2.0); raises ValueError, or what a map that lacks
    something leads to."""
    root = ElementTree.fromstring(raw)
    fields = {each.tag: (each.text or "").strip() for each in root}
    if root.get("version") != "2.0" or fields.get("ChecksumType") != "sha256":
        raise ValueError("accepted: version 2.0 with checksums of type sha256")
    # The map's own checksum is that of the file with zeros in its place.
    own = fields.get("BmapFileChecksum", "")
    if len(own) != 64 or hashlib.sha256(raw.replace(own.encode(), _ZEROS, 1)).hexdigest() != own:
        raise ValueError("its own checksum does not match: it is damaged")
    size, block = int(fields["ImageSize"]), int(fields["BlockSize"])
    ranges = tuple(_range(each, size, block) for each in root.iterfind("BlockMap/Range"))
    edges = [edge for each in ranges for edge in (each.start, each.end)]
    if edges != sorted(edges) or not edges or edges[0] != 0:
        raise ValueError("its ranges are not in order, or leave out the first block, where the partition table is")
    return size, ranges


def _range(element: ElementTree.Element, size: int, block: int) -> Range:
    """``first-last`` or ``only``, in blocks; the image may end within the last one."""
    first, _, last = (element.text or "").strip().partition("-")
    return Range(int(first) * block, min((int(last or first) + 1) * block, size), element.get("chksum"))


def check(image: Image, advance: Callable[[int], None]) -> Contents:
    """Read all of ``image``; returns what is to be written. ``advance`` gets how many bytes of its file are read.

    Raises CommandError (66) if it is damaged or cut short, or is no image of a disk.
    """
    head, found, size, before = bytearray(partitions.HEAD), list[Range](), 0, 0
    with closing(chunks(image)) as parts:
        for offset, data in parts:
            if offset < len(head):
                head[offset:] = data[: len(head) - offset].ljust(len(head) - offset, b"\0")
            found.append(Range(offset, offset + len(data), hashlib.sha256(data).hexdigest()))
            size = offset + len(data)
            # Where the program that unpacks it is: both share one offset.
            place = os.lseek(image.file.fileno(), 0, os.SEEK_CUR)
            advance(place - before)
            before = place
    size = image.size or size
    try:
        partitions.of_head(bytes(head), size)
    except ValueError as error:
        raise CommandError(Exit.NO_INPUT, f"{image.path}: not an image of a disk: {error}") from error
    return Contents(size, tuple(found))


def chunks(image: Image) -> Generator[tuple[int, bytes], None, None]:
    """What matters of the image: an offset, and the bytes there, in order. Each range of the map is checked once it is
    read whole, and the image must end where the map says; raises CommandError (66) if not."""
    with _unpacked(image) as stream:
        if image.mapped is None:
            offset = 0
            while data := _read(stream, _most(offset)):
                yield offset, data
                offset += len(data)
            return
        assert image.size is not None
        place = 0
        for part in (*image.mapped, Range(image.size, image.size, None)):
            digest = hashlib.sha256()
            while place < part.end:
                edge = part.start if place < part.start else part.end
                data = _read(stream, min(_most(place), edge - place))
                if not data:
                    raise EOFError(f"{image.path}: it ends too early, at byte {place}")
                if place >= part.start:
                    digest.update(data)
                    yield place, data
                place += len(data)
            if part.start < part.end and part.sha256 not in (None, digest.hexdigest()):
                raise CommandError(Exit.NO_INPUT, f"{image.path}: bytes {part.start} to {part.end}: wrong checksum")
        if _read(stream, 1):
            raise CommandError(Exit.NO_INPUT, f"{image.path}: it goes on after its {image.size} bytes")


def _most(offset: int) -> int:
    """How much is one chunk from ``offset`` on: up to the next multiple of its size, as cards erase."""
    return CHUNK - offset % CHUNK if offset else BLOCK


def _read(stream: io.RawIOBase, count: int) -> bytes:
    """``count`` bytes, or what is left."""
    parts = []
    while count and (data := stream.read(count)):
        parts.append(data)
        count -= len(data)
    return b"".join(parts)


@contextmanager
def _unpacked(image: Image) -> Iterator[io.RawIOBase]:
    """The image's bytes, unpacked, for one who reads to the end; an EOFError of his becomes a CommandError (66)."""
    image.file.seek(0)
    with refused(Exit.NO_INPUT, image.path):
        try:
            with _unpacked_by(image) if image.packer else nullcontext(image.file) as stream:
                yield stream
        except EOFError as error:
            raise CommandError(Exit.NO_INPUT, str(error)) from error


@contextmanager
def _unpacked_by(image: Image) -> Iterator[io.RawIOBase]:
    # A process group of its own: Ctrl-C is for us, and a program that it ended would look like a damaged image.
    process = subprocess.Popen(
        [image.packer, "--decompress", "--stdout", "--quiet"],
        stdin=image.file,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        pipesize=1 << 20,
        process_group=0,
    )
    assert isinstance(process.stdout, io.RawIOBase) and process.stderr
    try:
        early = None
        try:
            yield process.stdout
        except EOFError as error:
            early = error
        errors = process.stderr.read().decode(errors="replace")
        if process.wait() != 0:  # it knows better why the image ends too early
            reason = errors.replace("/*stdin*\\", "").replace(f"{image.packer}: ", "").strip(" :\n")
            reason = reason or f"exit code {process.returncode}"
            raise CommandError(Exit.NO_INPUT, f"{image.path}: damaged or cut short: {image.packer} says: {reason}")
        if early:
            raise early
    finally:
        process.kill()
        process.communicate()
