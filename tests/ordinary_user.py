"""An ordinary user of this machine, who holds all the locks that he can (flock(2) takes an open file of any kind)."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: becomes another user")

_HOLD = """
import fcntl, os, sys
for path in sys.argv[1:]:
    try:
        opened = os.open(path, os.O_RDONLY)
        print(path)
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (PermissionError, BlockingIOError):
        pass
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def folder() -> Iterator[Path]:
    """A folder of root's that everybody may enter, as those below /run are; one of pytest's nobody else may."""
    with tempfile.TemporaryDirectory(dir="/run") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@contextmanager
def holding(*paths: Path) -> Iterator[list[Path]]:
    """Those of ``paths`` that he can open, whose locks he holds for the length of the block if nobody else does."""
    command = [*NOBODY, sys.executable, "-I", "-c", _HOLD, *map(str, paths)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as user:
        assert user.stdin and user.stdout
        held = []
        while (line := user.stdout.readline().strip()) != "ready":
            assert line, "he could not even begin"
            held.append(Path(line))
        try:
            yield held
        finally:
            user.stdin.close()
