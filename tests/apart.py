"""A worker of tests that run side by side: with network namespaces, /run, /dev/shm and temporary files of its own.

Its /run has the folder that daemons and Squid have their sockets and locks in, as that of any machine that ran one.

Each test of the kernel looks for what it left on the machine, and two would find each other's.
"""

import ctypes
import os
import subprocess
import tempfile
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000  # linux/sched.h
_MAKE = """\
mount --make-rprivate /
for folder in /run /dev/shm; do mount -t tmpfs -o mode=1777 tmpfs "$folder"; done
chmod 755 /run
mkdir -m 755 /run/tributary
ip link set lo up
"""


def set_apart() -> tempfile.TemporaryDirectory[str]:
    """Have this process, and all that it starts from here on, so; sockets that it has stay where they are.

    Returns the folder of its temporary files; raises OSError if the kernel refuses.
    """
    _unshare(_CLONE_NEWNS | _CLONE_NEWNET)
    subprocess.run(["sh", "-ec", _MAKE], check=True)
    folder = tempfile.TemporaryDirectory(prefix="apart-", ignore_cleanup_errors=True)
    Path(folder.name).chmod(0o1777)
    os.environ["TMPDIR"] = tempfile.tempdir = folder.name
    return folder


def leave_network() -> None:
    """Have this thread, and all that it starts from here on, in a new network namespace; raises OSError."""
    _unshare(_CLONE_NEWNET)


def _unshare(flags: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"unshare(2): {os.strerror(number)}")
