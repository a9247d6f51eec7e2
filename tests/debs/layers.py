"""Layers over a folder that stays as it is (overlayfs): what is written goes to memory, and is gone with the layer.

A layer is mounted in a mount namespace that a process of its own keeps. It shows nowhere but beneath that process's
/proc/PID/root, and nothing of it outlives us: the process ends as its input does.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_MOUNTS = (
    'mount -t tmpfs -o mode=0755 tributary-layer "$1" && mkdir "$1/upper" "$1/work" "$1/root" && '
    'mount -t overlay -o "lowerdir=$0,upperdir=$1/upper,workdir=$1/work" tributary-layer "$1/root" && '
    "echo mounted && exec cat"
)


@dataclass(frozen=True)
class Layer:
    """A mounted layer: the process that keeps it, and folders in that process's mount namespace."""

    keeper: int
    place: Path
    parts: tuple[Path, ...]  # what it is made of, the topmost first

    @property
    def root(self) -> Path:
        """The folder, for who is outside."""
        return Path(f"/proc/{self.keeper}/root{self.place}")

    @property
    def entering(self) -> tuple[str, ...]:
        """What a command that is to see ``place`` begins with."""
        return ("nsenter", f"--mount=/proc/{self.keeper}/ns/mnt")


@contextmanager
def layer(below: Path | Layer, folder: Path) -> Iterator[Layer]:
    """A layer over a folder, or over another layer, mounted on the new ``folder``."""
    folder.mkdir()
    # All that is below stands side by side: of overlays upon overlays the kernel takes two.
    enter, parts = (below.entering, below.parts) if isinstance(below, Layer) else ((), (below,))
    lower = ":".join(map(str, parts))
    command = [*enter, "unshare", "--mount", "sh", "-c", _MOUNTS, lower, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as keeper:
        assert keeper.stdout is not None  # for mypy
        assert keeper.stdout.readline() == b"mounted\n", f"no overlay of {lower} in {folder}"
        yield Layer(keeper.pid, folder / "root", (folder / "upper", *parts))
    # The end of the block closes its input, and waits for its end.
