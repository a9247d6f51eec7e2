"""Whether the time of day is correct."""

import ctypes
import os
from pathlib import Path

_TIMESYNC = Path("/run/systemd/timesync")

_STATUS = 40
"""The offset of the status in struct timex of linux/timex.h, on 64-bit machines: after modes and four longs."""
_UNSYNCHRONIZED = 0x0040  # STA_UNSYNC
_SIZE = 512


def is_synchronized(timesync: Path = _TIMESYNC) -> bool:
    """Whether the network sets the clock: by systemd-timesyncd(8) since boot, or by the kernel within about nine hours.

    Every NTP daemon tells the kernel (adjtimex(2), STA_UNSYNC), chrony with ``rtcsync`` as Debian sets it. Where asking
    the kernel is not allowed, a clock without systemd-timesyncd counts as synchronized.
    """
    if (timesync / "synchronized").exists():
        return True
    try:
        return not status() & _UNSYNCHRONIZED
    except OSError:
        return not timesync.exists()


def status() -> int:
    """The status of the kernel's clock, STA_* of linux/timex.h; raises OSError."""
    question = ctypes.create_string_buffer(_SIZE)  # modes = 0: change nothing
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.adjtimex(question) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return ctypes.c_int.from_buffer(question, _STATUS if ctypes.sizeof(ctypes.c_long) == 8 else _STATUS // 2).value
