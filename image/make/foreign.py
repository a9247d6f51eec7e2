"""Programs of another processor, run by QEMU through the kernel's binfmt_misc, for the time of a build."""

import fcntl
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tributary.kernel import process
from tributary.settings.errors import CommandError, Exit

PLACE = Path("/proc/sys/fs/binfmt_misc")

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
# Beginnings of programs (elf(5): 64 bits, little endian, ET_EXEC or ET_DYN, machine), and which of their bits count.
_MAGIC = {
    "aarch64": (r"\x7fELF\x02\x01\x01" + r"\x00" * 9 + r"\x02\x00\xb7\x00"),
    "x86_64": (r"\x7fELF\x02\x01\x01" + r"\x00" * 9 + r"\x02\x00\x3e\x00"),
}
_MASK = r"\xff" * 7 + r"\x00" + r"\xff" * 8 + r"\xfe\xff\xff\xff"
# F: QEMU is opened now, and need not be in the root. C: rights are those of the program (sudo). O: by descriptor.
_FLAGS = "OCF"


@contextmanager
def runnable(architecture: str, locks: Path = Path("/run")) -> Iterator[None]:
    """Programs of Debian's ``architecture`` run while the block does; raises CommandError (69, 71). What was there
    stays.

    What is made for that is the whole machine's: of several builds at once, the last to end takes it away. Files in
    ``locks`` say who is at work.
    """
    machine = _MACHINES[architecture]
    if machine == platform.machine():
        yield
        return
    gate, users = (locks / f"tributary-{name}" for name in (f"{machine}-made", f"{machine}-users"))
    with open(users, "w", opener=_for_the_owner) as at_work:
        with _alone(gate) as made:
            _make(machine, made)
            fcntl.flock(at_work, fcntl.LOCK_SH)
        try:
            yield
        finally:
            with _alone(gate) as made:
                _unmake(machine, made, at_work)


@contextmanager
def _alone(gate: Path) -> Iterator[IO[str]]:
    """Nobody else comes or goes meanwhile; the file says what of it was made by a build."""
    with open(gate, "a+", opener=_for_the_owner) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _for_the_owner(path: str, flags: int) -> int:
    """Whoever may open a file may hold its lock."""
    return os.open(path, flags, 0o600)


def _make(machine: str, made: IO[str]) -> None:
    if not (PLACE / "status").exists():
        done = process.run(["mount", "-t", "binfmt_misc", "binfmt_misc", str(PLACE)])
        if done.returncode != 0:
            why = done.stderr.strip()
            raise CommandError(Exit.UNAVAILABLE, f"the kernel has no binfmt_misc (modprobe binfmt_misc): {why}")
        _note(made, "mount")
    entry = PLACE / f"qemu-{machine}"
    if entry.exists():
        _check(entry)
        return
    try:
        (PLACE / "register").write_text(f":{entry.name}:M::{_MAGIC[machine]}:{_MASK}:{_qemu(machine)}:{_FLAGS}\n")
    except OSError as error:
        raise CommandError(Exit.SYSTEM, f"binfmt_misc does not take QEMU for {machine}: {error.strerror}") from error
    _note(made, "entry")


def _note(made: IO[str], what: str) -> None:
    made.write(f"{what}\n")
    made.flush()


def _unmake(machine: str, made: IO[str], at_work: IO[str]) -> None:
    """Take away what builds made, unless another one is still at work."""
    try:
        fcntl.flock(at_work, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    made.seek(0)
    noted = made.read().split()
    made.truncate(0)
    if "entry" in noted:
        with suppress(OSError):
            (PLACE / f"qemu-{machine}").write_text("-1")
    if "mount" in noted and {path.name for path in PLACE.iterdir()} <= {"register", "status"}:
        subprocess.run(["umount", str(PLACE)], check=False)


def _check(entry: Path) -> None:
    """mmdebstrap needs an entry that holds its interpreter open: the root has none."""
    text = entry.read_text()
    flags = next((line.partition(":")[2] for line in text.splitlines() if line.startswith("flags:")), "")
    if not text.startswith("enabled") or "F" not in flags:
        raise CommandError(
            Exit.UNAVAILABLE,
            f"{entry} is {text.splitlines()[0]} with flags{flags or ' none'}: accepted: enabled, with the flag F:"
            f" echo -1 >{entry} takes it away, and a new one is made for the time of the build",
        )


def _qemu(machine: str) -> str:
    for name in (f"qemu-{machine}-static", f"qemu-{machine}"):
        if path := shutil.which(name):
            return path
    raise CommandError(Exit.UNAVAILABLE, f"no QEMU for {machine} programs here: apt-get install qemu-user-static")
