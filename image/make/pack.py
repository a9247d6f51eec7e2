"""A disk as what people download: packed by zstd(1), with its checksum, its block map and its manifest."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from image.make import block_map
from image.make.command import Runner
from image.make.disk import DISK, MANIFEST
from image.make.watch import Watch
from tributary.settings.failure import Exit, Failure

_CHUNK = 4 << 20
# More takes four times as long for a twentieth of the size.
_LEVEL = "-12"


def names(image: str) -> tuple[str, ...]:
    """The files of an ``image`` of this name, the image itself last."""
    return (f"{image}.img.bmap", f"{image}.manifest", f"{image}.img.zst.sha256", f"{image}.img.zst")


def make(disk: Path, image: str, target: Path, runner: Runner) -> None:
    """All files of ``image`` in the folder ``target``; ``disk`` is the folder of disk.py. Raises Failure (71)."""
    target.mkdir()
    source, (bmap, listing, checksum, packed) = disk / DISK, (target / name for name in names(image))
    size = source.stat().st_size
    ranges = block_map.mapped(source, lambda done: runner.watch.progress(0.1 * done / size, "block map"))
    bmap.write_text(block_map.text(ranges, size))
    shutil.copyfile(disk / MANIFEST, listing)
    checksum.write_text(f"{_zstd(source, packed, runner.watch)}  {packed.name}\n")


def _zstd(source: Path, packed: Path, watch: Watch) -> str:
    """Pack ``source``; returns the SHA-256 of what came out. Two threads or more give the same bytes, however many."""
    size, done, digest = source.stat().st_size, 0, hashlib.sha256()
    command = ["zstd", "--quiet", "--force", "--threads=0", _LEVEL, f"--stream-size={size}", "-o", str(packed)]
    with source.open("rb") as file, subprocess.Popen(command, stdin=subprocess.PIPE) as zstd:
        assert zstd.stdin
        try:
            while data := file.read(_CHUNK):
                zstd.stdin.write(data)
                done += len(data)
                watch.progress(0.1 + 0.9 * done / size, "packing")
        except BaseException:
            zstd.kill()
            raise
    if zstd.returncode != 0:
        raise Failure(Exit.SYSTEM, f"zstd ended with {zstd.returncode}: see above")
    with packed.open("rb") as file:
        while data := file.read(_CHUNK):
            digest.update(data)
    return digest.hexdigest()


def deliver(packed: Path, image: str, output: Path) -> list[Path]:
    """The files of ``image`` in the folder ``output``; each comes whole, the image last. Raises Failure (71)."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        return [_placed(packed / name, output / name) for name in names(image)]
    except OSError as error:
        raise Failure(Exit.SYSTEM, f"{error.filename or output}: cannot be written: {error.strerror}") from error


def _placed(source: Path, target: Path) -> Path:
    partial = target.with_name(f".{target.name}.partial")
    try:
        shutil.copyfile(source, partial)
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)
    return target
