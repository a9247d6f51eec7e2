"""What ``throttler run`` is given."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunOptions:
    """``source`` and ``log`` are names of theirs, ``metrics`` is ADDRESS:PORT."""

    policy: Path
    source: str
    metrics: str | None
    log: str
    state_directory: Path | None
