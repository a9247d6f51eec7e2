"""Runs a command for as long as its own standard input stays open, which it does as long as the connection stands.

    python -I leash.py COMMAND...

When it closes, or SIGTERM comes, the command gets SIGTERM, and what it started SIGKILL. Ends with the command's exit
code, 128 and more for a signal. It imports nothing of the project: it starts before every command.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

_PR_SET_CHILD_SUBREAPER = 36  # include/uapi/linux/prctl.h
_GRACE = 4.0  # seconds between SIGTERM and SIGKILL: twice that is less than who waits for it has


def main(command: list[str]) -> int:
    """Run ``command``; returns its exit code."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    _wait(child)
    _wait_for_others(child.pid)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _wait(child: subprocess.Popen[bytes]) -> None:
    ended, (told, tells) = os.pidfd_open(child.pid), os.pipe()
    # Once, whatever comes how often: a second SIGTERM may interrupt what the first one had it do.
    os.set_blocking(tells, False)
    signal.set_wakeup_fd(tells)
    signal.signal(signal.SIGTERM, lambda *_: None)
    readable, _, _ = select.select([ended, sys.stdin.fileno(), told], [], [])
    if ended not in readable:
        child.terminate()
    try:
        child.wait(_GRACE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _wait_for_others(group: int) -> None:
    """What the command has left behind, which is ours now, and still in its process group unless it went far."""
    with suppress(ProcessLookupError, ChildProcessError):
        os.killpg(group, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.02)
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
