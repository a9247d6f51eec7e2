"""What each command of the throttler is given."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunOptions:
    """``throttler run``; ``source`` and ``log`` are names of theirs, ``metrics`` is ADDRESS:PORT."""

    policy: Path
    source: str
    metrics: str | None
    log: str
    state_directory: Path | None
    dry_run: bool


@dataclass(frozen=True)
class PlanOptions:
    """``throttler plan``."""

    policy: Path


@dataclass(frozen=True)
class SetOptions:
    """``throttler set``; ``keys`` are KEY=VALUE each."""

    name: str
    keys: Sequence[str]
    last: bool
    dry_run: bool
    json: bool


@dataclass(frozen=True)
class UnsetOptions:
    """``throttler unset``."""

    name: str
    json: bool


@dataclass(frozen=True)
class ReloadOptions:
    """``throttler reload``."""

    json: bool
