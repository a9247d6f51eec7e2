"""Runs Debian's programs, with a time-out."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from tributary.settings.errors import CommandError, Exit

_PACKAGES = {
    "bmaptool": "bmap-tools",
    "debugfs": "e2fsprogs",
    "dpkg-deb": "dpkg",
    "fdtget": "device-tree-compiler",
    "ip": "iproute2",
    "lsblk": "util-linux",
    "mcopy": "mtools",
    "mdir": "mtools",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.vfat": "dosfstools",
    "mksquashfs": "squashfs-tools",
    "mtype": "mtools",
    "nft": "nftables",
    "sfdisk": "fdisk",
    "ss": "iproute2",
    "tc": "iproute2",
    "timedatectl": "systemd",
    "unshare": "util-linux",
    "wg": "wireguard-tools",
    "xz": "xz-utils",
}

QUICK, LONGEST = 5.0, 60.0
"""Time-outs in seconds: of a program that a daemon's loop waits for, and of any other."""

_END = 1.0
"""Seconds to wait for a killed program; the kernel may hold it for longer."""


class TimedOut(CommandError):
    """A program that exceeded its time-out and was killed."""


def require(*programs: str) -> None:
    """Raises CommandError, exit 69, for the first of ``programs`` that is not installed."""
    for program in programs:
        if shutil.which(program) is None:
            raise _missing(program)


def _missing(program: str) -> CommandError:
    return CommandError(Exit.UNAVAILABLE, f"{program} is missing: install {package_of(program)}")


def package_of(program: str) -> str:
    """The package of Debian that has ``program``."""
    return _PACKAGES.get(program, program)


def output(command: Sequence[str], given: str | None = None, timeout: float = LONGEST) -> str:
    """What ``command`` prints; raises CommandError as ``run`` does, and exit 71 with its message if it fails."""
    return printed(run(command, given, timeout))


def printed(done: subprocess.CompletedProcess[str]) -> str:
    """What a program has printed that has ended; raises CommandError, exit 71, with its message if it failed."""
    if done.returncode:
        reason = "; ".join(filter(None, map(str.strip, done.stderr.splitlines())))
        raise CommandError(Exit.SYSTEM, f"{' '.join(done.args)}: {reason or f'exit code {done.returncode}'}")
    return done.stdout


def run(command: Sequence[str], given: str | None = None, timeout: float = LONGEST) -> subprocess.CompletedProcess[str]:
    """Run ``command`` with ``given`` on its standard input, whatever its exit code.

    It has its own process group: a Ctrl-C in the terminal does not interrupt it. Raises CommandError, exit 69
    if it is not here, and TimedOut, exit 71, if it takes more than ``timeout`` seconds; it is killed then, with its
    children.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            process_group=0,
        )
    except (FileNotFoundError, PermissionError) as error:  # the latter for an unreadable folder in PATH
        raise _missing(command[0]) from error
    try:
        output, complaints = process.communicate(given, timeout)
    except subprocess.TimeoutExpired as error:
        _kill(process)
        raise TimedOut(Exit.SYSTEM, f"{' '.join(command)}: did not end in {timeout:g} s, and was killed") from error
    except BaseException:
        _kill(process)
        raise
    return subprocess.CompletedProcess(command, process.returncode, output, complaints)


@contextmanager
def ended(process: "subprocess.Popen[Any]", grace: float) -> Iterator[None]:
    """``process`` is over when the block is: it is asked to end, and killed if that takes it ``grace`` seconds, or if
    this one is asked to end meanwhile.
    """
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(grace)
        except BaseException as error:
            process.kill()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
        finally:
            process.wait()


def _kill(process: "subprocess.Popen[str]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END)
