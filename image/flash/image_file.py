"""The image: is it whole, and its bytes in their order. Its file is opened once, so that nobody exchanges it later."""

import hashlib
import io
import mmap
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from image.flash import bmap, partition_table
from image.flash.bmap import Contents, Range
from tributary.settings.errors import CommandError, Exit

CHUNK = 4 << 20
"""How much is read, written and compared at once, in bytes."""


@dataclass(frozen=True)
class Packer:
    """A program that unpacks images, and how its files are known: by their first bytes, or by their name's ending."""

    program: str
    package: str
    magic: bytes
    suffix: str


_PACKERS = (
    Packer("zstd", "zstd", bytes.fromhex("28b52ffd"), ".zst"),  # RFC 8878 section 3.1.1
    Packer("xz", "xz-utils", b"\xfd7zXZ\0", ".xz"),  # The .xz File Format, section 2.1.1.1
    Packer("gzip", "gzip", b"\x1f\x8b\x08", ".gz"),  # RFC 1952 section 2.3.1
    Packer("bzip2", "bzip2", b"BZh", ".bz2"),
)
_ARCHIVES = {b"PK\x03\x04": "unzip", b"7z\xbc\xaf\x27\x1c": "7z x"}
"""First bytes of what may hold several files, and the command that unpacks it."""
_BESIDE_LIMIT = 64 << 20  # the map of a gigabyte has some hundred kilobytes

Advance = Callable[[int], None]


@dataclass(frozen=True)
class Image:
    """An open image file: its own size in bytes, what packed it if anything did, and what stands beside it."""

    path: Path
    file: io.FileIO
    size: int
    packer: Packer | None
    checksum: str | None
    map: Contents | None

    def position(self) -> int:
        """How far it is read, by us or by zstd: both share one offset."""
        return os.lseek(self.file.fileno(), 0, os.SEEK_CUR)


@contextmanager
def opened(path: Path) -> Iterator[Image]:
    """The image at ``path`` with its checksum and map; raises CommandError (66, 69). Nothing of it is checked yet."""
    with _file(path) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise CommandError(
                Exit.NO_INPUT, f"{path}: not a file: accepted: an image, .img or packed as .img.zst, .xz, .gz or .bz2"
            )
        packer = _packer(path, file.read(8))
        if packer and shutil.which(packer.program) is None:
            raise CommandError(Exit.UNAVAILABLE, f"{packer.program} is missing: install the package {packer.package}")
        yield Image(path, file, status.st_size, packer, _checksum_beside(path), _map_beside(path, packer))


def _packer(path: Path, head: bytes) -> Packer | None:
    """What packed the file at ``path``, which begins with ``head``; raises CommandError (66) for an archive of
    files.
    """
    for magic, command in _ARCHIVES.items():
        if head.startswith(magic):
            raise CommandError(
                Exit.NO_INPUT, f"{path}: an archive: accepted: the image in it, by {command} {path.name}"
            )
    by_content = (each for each in _PACKERS if head.startswith(each.magic))
    by_name = (each for each in _PACKERS if path.suffix == each.suffix)
    return next(by_content, None) or next(by_name, None)


def _file(path: Path) -> io.FileIO:
    try:
        return io.FileIO(path)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> CommandError:
    return CommandError(Exit.NO_INPUT, f"{path}: cannot be read: {error.strerror}")


def _checksum_beside(image: Path) -> str | None:
    """The SHA-256 of ``image`` in a file as sha256sum(1) writes it, if there is one."""
    path = image.with_name(image.name + ".sha256")
    if not path.exists():
        return None
    with _file(path) as file:
        text = file.read(_BESIDE_LIMIT).decode(errors="replace")
    lines = [line.split(maxsplit=1) for line in text.splitlines()]
    # An asterisk before the name says that the file was read as bytes, which on this system it always is.
    found = [words[0].lower() for words in lines if len(words) == 2 and words[1].removeprefix("*") == image.name]
    if not found or len(found[0]) != 64:
        raise CommandError(Exit.NO_INPUT, f"{path}: it has no line for {image.name}: accepted: what sha256sum writes")
    return found[0]


def _map_beside(image: Path, packer: Packer | None) -> Contents | None:
    """The block map next to ``image``: NAME.img.zst.bmap, NAME.img.bmap or NAME.bmap."""
    bare = image.name.removesuffix(packer.suffix) if packer else image.name
    names = dict.fromkeys(f"{name}.bmap" for name in (image.name, bare, bare.removesuffix(".img")))
    path = next((image.with_name(name) for name in names if image.with_name(name).exists()), None)
    if path is None:
        return None
    with _file(path) as file:
        raw = file.read(_BESIDE_LIMIT)
    try:
        return bmap.parse(raw)
    except ValueError as error:
        raise CommandError(Exit.NO_INPUT, f"{path}: {error}") from error


def survey(image: Image, advance: Advance) -> Contents:
    """Read all of ``image`` and check it; returns what is to be written. ``advance`` gets bytes read so far, of
    ``reading`` ones.

    Raises CommandError (66) if the checksum differs, it is damaged or cut short, or is no image of a disk.
    """
    if image.checksum:
        _check_checksum(image, advance)
    start = image.size if image.checksum else 0
    head, contents = _mapped(image, image.map, start, advance) if image.map else _whole(image, start, advance)
    flaw = partition_table.flaw(head, contents.size)
    if flaw:
        raise CommandError(Exit.NO_INPUT, f"{image.path}: not an image of a disk: {flaw}")
    return contents


def reading(image: Image) -> int:
    """How many bytes of its file ``survey`` reads, the second time to unpack it."""
    return image.size * (2 if image.checksum else 1)


def _check_checksum(image: Image, advance: Advance) -> None:
    buffer, digest = memoryview(bytearray(CHUNK)), hashlib.sha256()
    with _rewound(image) as stream:
        while count := stream.fill(buffer):
            digest.update(buffer[:count])
            advance(stream.position)
    if digest.hexdigest() != image.checksum:
        raise CommandError(Exit.NO_INPUT, f"{image.path}: its checksum does not match: download it again")


def _mapped(image: Image, contents: Contents, start: int, advance: Advance) -> tuple[bytes, Contents]:
    head = b""
    with closing(chunks(image, contents)) as parts:
        for offset, data in parts:
            head = head if offset else bytes(data[: bmap.BLOCK])
            advance(start + image.position())
    return head, contents


def _whole(image: Image, start: int, advance: Advance) -> tuple[bytes, Contents]:
    """Without a map all counts, and what was read now is what must be read later."""
    buffer, digest, head = memoryview(bytearray(CHUNK)), hashlib.sha256(), b""
    with _unpacked(image) as stream:
        while count := stream.fill(buffer):
            head = head or bytes(buffer[: min(count, bmap.BLOCK)])
            digest.update(buffer[:count])
            advance(start + image.position())
        size = stream.position
    return head, Contents(size, (Range(0, size, digest.hexdigest()),))


def chunks(image: Image, contents: Contents) -> Generator[tuple[int, memoryview], None, None]:
    """The ``contents`` in their order: an offset, and bytes that are good until the next step. Each range is checked
    once it is read whole, and the image must end where ``contents`` end; raises CommandError (66) if not.

    The bytes lie at the beginning of a page, as reading and writing past the page cache asks for (open(2), O_DIRECT).
    """
    buffer = memoryview(mmap.mmap(-1, CHUNK))
    with _unpacked(image) as stream:
        for part in contents.ranges:
            stream.skip(part.start, buffer)
            digest = hashlib.sha256()
            for offset in range(part.start, part.end, CHUNK):
                data = buffer[: min(CHUNK, part.end - offset)]
                stream.read(data)
                digest.update(data)
                yield offset, data
            if part.sha256 not in (None, digest.hexdigest()):
                raise CommandError(Exit.NO_INPUT, f"{image.path}: bytes {part.start} to {part.end}: wrong checksum")
        stream.skip(contents.size, buffer)
        if stream.fill(buffer[:1]):
            raise CommandError(Exit.NO_INPUT, f"{image.path}: it goes on after its {contents.size} bytes")


class _Stream:
    """Bytes of the image, from the first one on; ``position`` is how many were read."""

    def __init__(self, path: Path, raw: io.FileIO) -> None:
        self.position = 0
        self._path = path
        self._raw = raw

    def fill(self, view: memoryview) -> int:
        """Read until ``view`` is full or the image ends; returns how much."""
        count = 0
        try:
            while count < len(view) and (more := self._raw.readinto(view[count:])):
                count += more
        except OSError as error:
            raise _unreadable(self._path, error) from error
        self.position += count
        return count

    def read(self, view: memoryview) -> None:
        """Fill ``view``; raises EOFError if the image ends before."""
        if self.fill(view) < len(view):
            raise EOFError(f"{self._path}: it ends too early, at byte {self.position}")

    def skip(self, end: int, scratch: memoryview) -> None:
        """Read up to the byte ``end``, and forget it."""
        while self.position < end:
            self.read(scratch[: min(len(scratch), end - self.position)])


@contextmanager
def _rewound(image: Image) -> Iterator[_Stream]:
    image.file.seek(0)
    yield _Stream(image.path, image.file)


@contextmanager
def _unpacked(image: Image) -> Iterator[_Stream]:
    """The image's bytes, unpacked, for one who reads to the end; an EOFError of his becomes a CommandError (66)."""
    try:
        with _unpacked_by(image.packer, image) if image.packer else _rewound(image) as stream:
            yield stream
    except EOFError as error:
        raise CommandError(Exit.NO_INPUT, str(error)) from error


@contextmanager
def _unpacked_by(packer: Packer, image: Image) -> Iterator[_Stream]:
    image.file.seek(0)
    # A process group of its own: Ctrl-C is for us, and a program that it ended would look like a damaged image.
    process = subprocess.Popen(
        [packer.program, "--decompress", "--stdout", "--quiet"],
        stdin=image.file,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        pipesize=1 << 20,
        process_group=0,
    )
    assert isinstance(process.stdout, io.FileIO) and process.stderr

    def check_end() -> None:
        words = process.stderr.read() if process.stderr else b""
        if process.wait() != 0:
            said = words.decode(errors="replace").replace("/*stdin*\\", "").replace(f"{packer.program}: ", "")
            reason = said.strip(" :\n") or f"exit code {process.returncode}"
            raise CommandError(Exit.NO_INPUT, f"{image.path}: damaged or cut short: {packer.program} says: {reason}")

    try:
        try:
            yield _Stream(image.path, process.stdout)
        except EOFError:
            check_end()  # which knows better why
            raise
        check_end()
    finally:
        process.kill()
        process.communicate()
