"""The kernel's tables of mounts and swap, text in and values out."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """One mount: MAJOR:MINOR of its file system (0:N for some that have devices all the same), where, and from what."""

    number: str
    point: str
    source: str


def mounts(text: str) -> Iterator[Mount]:
    """The lines of /proc/PID/mountinfo (proc_pid_mountinfo(5)); what is no such line is left out."""
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, source = before.split(" "), after.split(" ")
        if separator and len(fields) >= 5 and len(source) >= 2:
            yield Mount(fields[2], _plain(fields[4]), _plain(source[1]))


def swaps(text: str) -> Iterator[str]:
    """The paths in /proc/swaps (proc_swaps(5))."""
    for line in text.splitlines()[1:]:
        yield _plain(line.split()[0])


def _plain(field: str) -> str:
    """The kernel writes spaces, tabs, newlines and backslashes as octal numbers (seq_escape)."""
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), field)
