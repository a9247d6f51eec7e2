"""The command run on a loop device, and what it left there."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.unit.image.flash.made import bmap_of, disk_image, ranges_without
from tributary.paths import ROOT

DISK = 16 << 20
BLOCKS = 3000  # three chunks of an image, the last one not full
HOLES = (range(3, 10), range(1030, 1900))
IMAGE = disk_image(BLOCKS, holes=HOLES)
MAP = bmap_of(IMAGE, ranges_without(BLOCKS, HOLES))
OLD = bytes([0xAA])
TAIL = 1 << 20
"""The disk's last bytes are cleared."""
USELESS = "does not boot as it is"


def expected() -> bytes:
    """The disk after the image was written over ``OLD`` bytes."""
    return IMAGE + OLD * (DISK - TAIL - len(IMAGE)) + bytes(TAIL)


def flash_pi(*words: object, answer: str = "", inside: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, by the command ``inside`` if there is one."""
    with started(*words, inside=inside) as process:
        output, errors = process.communicate(answer, timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def written(*words: object) -> subprocess.CompletedProcess[str]:
    """The command that writes, without a question, and succeeds."""
    result = flash_pi("--yes", "--force", *words)
    assert result.returncode == 0, result.stderr
    return result


@contextmanager
def started(*words: object, inside: Sequence[str] = ()) -> Iterator[subprocess.Popen[str]]:
    """Start the command; it is killed if the block ends before it."""
    process = subprocess.Popen(
        [*inside, str(ROOT / "scripts/flash-pi"), *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Ctrl-C works, also where the tests run in the background of a shell.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def events(result: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """What --json gave."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def fill(path: Path, size: int = DISK) -> Path:
    """A file of ``OLD`` bytes for a loop device."""
    path.write_bytes(OLD * size)
    return path


def claimed(device: Path) -> int:
    """A descriptor by which this process claims ``device``."""
    return os.open(device, os.O_RDONLY | os.O_EXCL)
