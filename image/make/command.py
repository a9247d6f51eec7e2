"""Commands of a build: watched while they run, their output kept in a log; on this machine, or inside a root."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from image.debian import INSIDE, around
from image.progress import Progress
from tributary.kernel import process
from tributary.settings.errors import CommandError, Exit

_TAIL = 12
_GRACE = 60.0  # seconds: mmdebstrap takes its mounts down when it is asked to end
# /tmp and /run of a machine that runs; and /boot/firmware as a mount, without which raspi-firmware's hook does nothing.
_MOUNTS = "; ".join(
    (
        'mount -t tmpfs -o mode=1777 tmp "$0/tmp"',
        'mount -t tmpfs -o mode=755 run "$0/run"',
        'mount --bind "$0/boot/firmware" "$0/boot/firmware"',
    )
)
_TOOLS = (
    *("mmdebstrap", "sfdisk", "bmaptool", "fdtget", "mkfs.vfat", "mcopy", "mkfs.ext4", "debugfs"),
    *("zstd", "unshare"),
)
_OF_BUNDLES = ("rauc", "mksquashfs")


@dataclass(frozen=True)
class Runner:
    """Runs commands of one step: all that they say goes into ``log``; ``progress`` shows the time that passes."""

    log: Path
    progress: Progress

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Run ``command``; raises CommandError: 69 if it is not here, 71 if it fails, with the log's end."""
        begun = self.log.stat().st_size if self.log.exists() else 0
        process.require(command[0])
        with self.log.open("ab") as log:
            running = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | (environment or {}),
            )
        with process.ended(running, _GRACE):
            while not _is_over(running):
                self.progress.update(doing=_last_line(self.log))
        if running.returncode != 0:
            said = self.log.read_bytes()[begun:].decode(errors="replace").strip().splitlines()[-_TAIL:]
            shown = "".join(f"\n  {line}" for line in said)
            raise CommandError(
                Exit.SYSTEM, f"{_short(command)} ended with {running.returncode} (all it said: {self.log}):{shown}"
            )

    def inside(self, root: Path, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        given = [f"{name}={value}" for name, value in {**INSIDE, **(environment or {})}.items()]
        run = ["chroot", str(root), "env", "--ignore-environment", *given, *command]
        self.around(root, run)

    def around(self, root: Path, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Run ``command`` of this machine while ``root`` has what programs in there need."""
        self.run(around(root, command, _MOUNTS), environment)


def _is_over(running: "subprocess.Popen[bytes]") -> bool:
    """After a second at most."""
    with suppress(subprocess.TimeoutExpired):
        running.wait(1)
    return running.returncode is not None


def _short(command: Sequence[str]) -> str:
    """The command without what it is wrapped in."""
    words = list(command)
    for wrapping in ("chroot", "--ignore-environment"):
        if wrapping in words:
            words = words[words.index(wrapping) + 1 :]
    return " ".join(word for word in words if "=" not in word)[:100]


def _last_line(log: Path) -> str:
    """The last whole line of ``log``: what a command is at."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 2000))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""


def require(*, bundle: bool = False) -> None:
    """Raise CommandError (69) that names all that is missing, for a ``bundle`` as well."""
    needed = (*_TOOLS, *(_OF_BUNDLES if bundle else ()))
    if packages := sorted({process.package_of(tool) for tool in needed if shutil.which(tool) is None}):
        raise CommandError(Exit.UNAVAILABLE, f"missing here: apt-get install {' '.join(packages)}")
