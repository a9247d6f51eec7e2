"""Loop devices for tests: real block devices, each of which ends with the test, also with one that is killed."""

import errno
import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# linux/loop.h
_CTL_GET_FREE = 0x4C82
_CONFIGURE = 0x4C0A
_SET_CAPACITY = 0x4C07
_READ_ONLY, _AUTOCLEAR, _PARTSCAN = 1, 4, 8
# struct loop_config: file, block size, then struct loop_info64, of which the flags alone are not zero, and room
_CONFIG = struct.Struct("<II52xI176x64x")


@contextmanager
def loop(file: Path | int, *, sector: int = 512, read_only: bool = False) -> Iterator[Path]:
    """A loop device on ``file``, a path or a descriptor, on which partitions may be made."""
    mode = os.O_RDONLY if read_only else os.O_RDWR  # also of the device: one that is opened to read becomes read-only
    opened = os.open(file, mode) if isinstance(file, Path) else os.dup(file)
    flags = _PARTSCAN | _AUTOCLEAR | (_READ_ONLY if read_only else 0)
    path, device = _configured(mode, _CONFIG.pack(opened, sector, flags))
    try:
        os.close(opened)
        yield path
    finally:
        os.close(device)


def _configured(mode: int, config: bytes) -> tuple[Path, int]:
    """A device with this configuration, and the descriptor that it ends with."""
    while True:
        path = Path(f"/dev/loop{_free()}")
        device = os.open(path, mode)
        try:
            fcntl.ioctl(device, _CONFIGURE, config)
        except OSError as error:
            os.close(device)
            # Another worker was given the same number and came first.
            if error.errno != errno.EBUSY:
                raise
        else:
            return path, device


def _free() -> int:
    control = os.open("/dev/loop-control", os.O_RDWR)
    try:
        return fcntl.ioctl(control, _CTL_GET_FREE)
    finally:
        os.close(control)


def measure_again(device: Path) -> None:
    """Have the kernel see that the file behind ``device`` has another size."""
    descriptor = os.open(device, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, _SET_CAPACITY)
    finally:
        os.close(descriptor)


def add_partition(device: Path, first: int, sectors: int) -> Path:
    """A partition that the kernel knows, as it would from a table that it reads; some kernels read none."""
    subprocess.run(["addpart", device, "1", str(first), str(sectors)], check=True, timeout=30)
    return Path(f"{device}p1")


def where_mounted(device: Path, point: Path) -> tuple[str, ...]:
    """The beginning of a command that runs where ``device`` is mounted at ``point``, read-only, and nowhere else: a
    mount in the machine's own namespace goes into each one that somebody makes meanwhile, and keeps the device busy."""
    point.mkdir()
    script = 'mount -o ro "$1" "$2" && shift 2 && exec "$@"'
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", str(device), str(point))
