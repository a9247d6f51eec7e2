"""The algorithms, which the program of the Rust crate overlay/paths has."""

from collections.abc import Sequence
from typing import Any

from overlay import programs


def ask(arguments: Sequence[str]) -> Any:
    """The program's answer; raises CommandError as ``programs.ask`` does."""
    return programs.ask("overlay-paths", arguments)
