"""Which processors a measurement may use."""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager


@contextmanager
def kept_to(processors: Collection[int]) -> Iterator[None]:
    """Keep this process, and all that is started within the block, to these processors, by their numbers."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
