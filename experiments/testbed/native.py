"""The programs of the Rust workspace converter/: the native converter, and the traffic to try it with."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tributary import cargo
from tributary.paths import CACHE


@dataclass(frozen=True)
class Programs:
    """Where the programs are."""

    converter: Path
    load: Path


_asked: list[Path] = []
_released = [False]
"""Whether this process has the programs built as a package has them, or else quickly."""


def measure_released() -> None:
    """From now on this process runs the programs as a package has them: what is measured is what users have.

    Building them takes three times as long. To be called before the first of them is asked for.
    """
    _released[0] = True


def description() -> dict[str, object]:
    """For a manifest: how the programs that this process has asked for were built, and the digest of each."""
    digests = {program.name: hashlib.sha256(program.read_bytes()).hexdigest()[:12] for program in _asked}
    return {"profile": "released" if _released[0] else "quick", "sha256": digests}


@cache
def build() -> Programs:
    """The programs, built anew if their source has changed; without cargo those that are there. Asked for once in a
    process: all readings of a run are of one program. Raises CommandError as ``cargo.build`` does.
    """
    return Programs(*_made("tributary-converter", "tributary-load"))


def load(*words: str) -> list[str]:
    """A command of tributary-load, which makes the traffic."""
    return [str(build().load), *words]


@cache
def offload_relay() -> Path:
    """The example of converter/offload: a relay that offloads its work to the kernel. Raises CommandError as
    ``cargo.build`` does: exit 69 without clang.
    """
    return _made("offload-relay")[0]


@dataclass(frozen=True)
class HandOff:
    """What a request hand-off needs beside the converter."""

    switch: Path
    back_end: Path


@cache
def hand_off() -> HandOff:
    """The switch and the back end. Raises CommandError as ``cargo.build`` does: exit 69 without clang."""
    return HandOff(*_made("tributary-switch", "tributary-backend"))


def converter_made_from() -> str:
    """The digest of the sources of the converter that was built here as packages have it; "" if there is none."""
    note = CACHE / "released/converter.made-from"
    return note.read_text().strip() if note.exists() and (CACHE / "released/tributary-converter").exists() else ""


def _made(*names: str) -> list[Path]:
    programs = cargo.build(*names, released=_released[0])
    _asked.extend(programs)
    return programs
