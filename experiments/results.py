"""A run's results folder, named by its time and marked as partial until it is whole, and its manifest."""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tributary.daemons.state_file import write_atomic
from tributary.paths import ROOT


def _git(checkout: Path) -> tuple[str, ...]:
    """git(1) there, also where the checkout is another user's."""
    return "git", "-c", f"safe.directory={checkout}", "-C", str(checkout)


_VERSIONS = {
    "squid": ("squid", "-v"),
    "nginx": ("nginx", "-v"),
    "iproute2": ("ip", "-V"),
    "nftables": ("nft", "--version"),
    "mptcpize": ("dpkg-query", "-W", "mptcpize"),
    "commit": (*_git(ROOT), "rev-parse", "HEAD"),
}


@contextmanager
def results_folder(name: str, parent: Path) -> Iterator[Path]:
    """A new folder ``parent``/``name``/TIME for the block to fill; it stays TIME.partial if the block fails.

    An empty one does not stay.
    """
    partial = partial_folder(parent / name)
    try:
        yield partial
        finish(partial)
    finally:
        if partial.exists() and not any(partial.iterdir()):
            partial.rmdir()


def partial_folder(parent: Path) -> Path:
    """A new folder ``parent``/TIME.partial."""
    partial = parent / datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ.partial")
    partial.mkdir(parents=True)
    return partial


def finish(partial: Path) -> None:
    """TIME.partial is whole, and is TIME from now on."""
    partial.rename(partial.with_suffix(""))


def manifest(script: str, **about: object) -> dict[str, object]:
    """How a run of scripts/``script`` came about: command, time, machine, versions, and what ``about`` adds."""
    return {
        "command": [f"scripts/{script}", *sys.argv[1:]],
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": {name: _first_line(command) for name, command in _VERSIONS.items()},
        "python": platform.python_version(),
        **about,
    }


def commit() -> str | None:
    """The commit that is checked out here."""
    return _first_line(_VERSIONS["commit"])


def uncommitted(checkout: Path = ROOT) -> str | None:
    """A digest of what differs here from the commit, files that git does not know of included; None if nothing does."""
    if shutil.which("git") is None:
        return None
    status = [*_git(checkout), "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"]
    listed = subprocess.run(status, capture_output=True, text=True, check=False).stdout
    names = sorted(entry[3:] for entry in listed.split("\0") if entry)
    if not names:
        return None
    digest = hashlib.sha256()
    for name in names:
        path = checkout / name
        digest.update(f"{name}\0".encode() + (path.read_bytes() if path.is_file() else b"") + b"\0")
    return digest.hexdigest()[:12]


def machine() -> dict[str, object]:
    """The machine that a figure was measured on."""
    return {
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "processors": os.cpu_count(),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 10**6,
        "system": platform.freedesktop_os_release().get("PRETTY_NAME"),
    }


def write_json(path: Path, value: object) -> None:
    """Write ``value`` as indented JSON: whole, or not at all; raises CommandError (exit 71)."""
    write_atomic(path, f"{json.dumps(value, indent=2)}\n".encode(), mode=0o666)


def _processor() -> str | None:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def _first_line(command: tuple[str, ...]) -> str | None:
    """What ``command`` prints first on either stream; None where there is no such command or answer."""
    if shutil.which(command[0]) is None:
        return None
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    return lines[0] if done.returncode == 0 and lines else None
