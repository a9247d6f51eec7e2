"""How much of the processors' time a hypervisor gave to others: a machine that stalls spoils what is measured on it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_TIMEOUT = 120.0  # seconds
_STEAL = 7  # proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user time already


def share(before: str, after: str) -> float:
    """The part of the time, from 0 to 1, that was stolen between two readings of /proc/stat."""
    passed = [now - then for then, now in zip(_ticks(before), _ticks(after), strict=True)]
    return passed[_STEAL] / sum(passed) if sum(passed) else 0.0


def _ticks(stat: str) -> list[int]:
    return [int(field) for field in stat.splitlines()[0].split()[1 : _STEAL + 2]]


@contextmanager
def stolen() -> Iterator[Callable[[], float]]:
    """The function given says what part of the time was stolen since the block began."""
    stat = Path("/proc/stat")
    before = stat.read_text()
    yield lambda: share(before, stat.read_text())


def wait_for_calm(most: float) -> None:
    """Return once no more than ``most`` was stolen for a second, or after two minutes."""
    deadline = time.monotonic() + _TIMEOUT
    while time.monotonic() < deadline:
        with stolen() as now:
            # Nothing is stolen from who wants nothing: wake up often.
            for _ in range(200):
                time.sleep(0.005)
            if now() <= most:
                return
