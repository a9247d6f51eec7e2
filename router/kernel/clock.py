"""Whether the time of day can be believed."""

import ctypes
import os
from pathlib import Path

_TIMESYNC = Path("/run/systemd/timesync")

_STATUS = 40
"""Where struct timex of linux/timex.h has its status, on 64-bit machines: behind modes and four longs."""
_UNSYNCHRONIZED = 0x0040  # STA_UNSYNC
_SIZE = 512


def is_right(timesync: Path = _TIMESYNC) -> bool:
    """Whether the clock was set by the network since boot: systemd-timesyncd(8) says so, or the kernel was told.

    Every NTP daemon tells it (adjtimex(2), STA_UNSYNC), chrony with ``rtcsync`` as Debian sets it. Where nobody may ask
    the kernel, a clock that systemd-timesyncd does not keep is believed.
    """
    if (timesync / "synchronized").exists():
        return True
    try:
        return not status() & _UNSYNCHRONIZED
    except OSError:
        return not timesync.exists()


def status() -> int:
    """The kernel's word on the clock, STA_* of linux/timex.h; raises OSError if it does not tell."""
    question = ctypes.create_string_buffer(_SIZE)  # modes = 0: change nothing
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.adjtimex(question) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return ctypes.c_int.from_buffer(question, _STATUS if ctypes.sizeof(ctypes.c_long) == 8 else _STATUS // 2).value
