"""Runs Debian's programs, with a time-out."""

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from tributary.settings.errors import CommandError, Exit

_PACKAGES = {
    "ip": "iproute2",
    "nft": "nftables",
    "ss": "iproute2",
    "tc": "iproute2",
    "unshare": "util-linux",
    "wg": "wireguard-tools",
}

QUICK, LONGEST = 5.0, 60.0
"""Time-outs in seconds: of a program that a daemon's loop waits for, and of any other."""

_END = 1.0
"""Seconds to wait for a killed program; the kernel may hold it for longer."""


class TimedOut(CommandError):
    """A program that exceeded its time-out and was killed."""


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
        package = _PACKAGES.get(command[0], command[0])
        raise CommandError(Exit.UNAVAILABLE, f"{command[0]} is missing: install {package}") from error
    try:
        output, complaints = process.communicate(given, timeout)
    except subprocess.TimeoutExpired as error:
        _kill(process)
        raise TimedOut(Exit.SYSTEM, f"{' '.join(command)}: did not end in {timeout:g} s, and was killed") from error
    except BaseException:
        _kill(process)
        raise
    return subprocess.CompletedProcess(command, process.returncode, output, complaints)


def _kill(process: "subprocess.Popen[str]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END)
