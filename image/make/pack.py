"""A disk as what people download: packed by zstd(1), with its checksum, its block map and its manifest."""

import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from debs.repository import copy_whole
from image.make.command import Runner
from image.make.disk import DISK, MANIFEST
from image.progress import Progress
from tributary.daemons.state_file import write_atomic
from tributary.settings.errors import CommandError, Exit, refused

IMAGE, BLOCK_MAP = ".img.zst", ".img.bmap"
"""How the names of its files end."""

_CHUNK = 4 << 20
# More takes four times as long for a twentieth of the size.
_LEVEL = "-12"


def names(image: str) -> tuple[str, ...]:
    """The files of an ``image`` of this name, the image itself last."""
    return tuple(f"{image}{ending}" for ending in (BLOCK_MAP, ".manifest", f"{IMAGE}.sha256", IMAGE))


@dataclass(frozen=True)
class Packed:
    """Sizes and SHA-256 of a disk, and of what it was packed to."""

    disk_bytes: int
    disk_sha256: str
    bytes: int
    sha256: str


def make(disk: Path, image: str, target: Path, runner: Runner) -> Packed:
    """All files of ``image`` in the folder ``target``; ``disk`` is the folder of disk.py. Raises CommandError (71)."""
    target.mkdir()
    source, (bmap, listing, checksum, packed) = disk / DISK, (target / name for name in names(image))
    size = source.stat().st_size
    # A block counts unless the image has a hole there. The file systems are made so that only what they do not use is a
    # hole (disk.py): a block that holds zeros and matters is written as zeros.
    runner.run(["bmaptool", "create", "--output", str(bmap), str(source)])
    shutil.copyfile(disk / MANIFEST, listing)
    unpacked = _zstd(source, packed, runner.progress)
    with packed.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    checksum.write_text(f"{found}  {packed.name}\n")
    return Packed(size, unpacked, packed.stat().st_size, found)


def _zstd(source: Path, packed: Path, progress: Progress) -> str:
    """Pack ``source``; returns the SHA-256 of what went in. Two threads or more give the same bytes, however many."""
    size, done, digest = source.stat().st_size, 0, hashlib.sha256()
    command = ["zstd", "--quiet", "--force", "--threads=0", _LEVEL, f"--stream-size={size}", "-o", str(packed)]
    with source.open("rb") as file, subprocess.Popen(command, stdin=subprocess.PIPE) as zstd:
        assert zstd.stdin
        try:
            while data := file.read(_CHUNK):
                zstd.stdin.write(data)
                digest.update(data)
                done += len(data)
                progress.update(done / size, "packing")
        except BaseException:
            zstd.kill()
            raise
    if zstd.returncode != 0:
        raise CommandError(Exit.SYSTEM, f"zstd ended with {zstd.returncode}: see above")
    return digest.hexdigest()


def deliver(packed: Path, image: str, output: Path, others: Mapping[str, Path | str]) -> list[Path]:
    """The files of ``image`` in the folder ``output``, and ``others`` by their names, as files or as their texts.

    Each comes whole, the image last. Raises CommandError (71).
    """
    with refused(Exit.SYSTEM, output, "cannot be written"):
        output.mkdir(parents=True, exist_ok=True)
        given = {**others, **{name: packed / name for name in names(image)}}
        for name, content in given.items():
            if isinstance(content, Path):
                copy_whole(content, output / name)
            else:
                write_atomic(output / name, content.encode(), 0o644)
        return [output / name for name in given]
