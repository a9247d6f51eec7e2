"""Where a daemon keeps things: what the service manager made for it (systemd.exec(5)), or the usual place."""

import os
from collections.abc import Mapping
from pathlib import Path


def state(usual: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """What is kept over restarts (StateDirectory=)."""
    return _given("STATE_DIRECTORY", usual, environment)


def runtime(usual: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """What a reboot empties (RuntimeDirectory=)."""
    return _given("RUNTIME_DIRECTORY", usual, environment)


def _given(variable: str, usual: Path, environment: Mapping[str, str]) -> Path:
    # Several are separated by colons.
    first = environment.get(variable, "").split(":")[0]
    return Path(first) if first else usual
