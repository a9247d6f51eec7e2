"""GRUB's variables on the boot partition of a PC: which slot starts first, and how often each was tried.

GRUB writes them in place at each start, so that a power cut may leave a file that neither it nor RAUC reads. GRUB takes
the first entry of its menu then, slot A, and what has started makes the file anew. Which slot was found good last is in
a file of its own, which a start does not write unless another slot is found good.
"""

import re
from contextlib import suppress
from pathlib import Path

from image.upgrade.boot_partition import put
from image.upgrade.choice import SLOTS
from tributary.settings.errors import Exit, refused

NAME = "grub/grubenv"
_GOOD = "grub/good"
BYTES = 1024
"""Of a file that GRUB writes (GNU GRUB Manual 2.12, 15.1.3 Environment block)."""

_HEAD = "# GRUB Environment Block\n"
"""GRUB reads no file without it (grub-core/lib/envblk.c)."""
_WHOLE = re.compile(rf"{_HEAD}(?:[ -~]*\n)*#*".encode())


def environment(first: str = "A", *, other_good: bool = False) -> bytes:
    """The file where slot ``first`` is first, and good; the other one is its way back if that is good, too."""
    (other,) = set(SLOTS) - {first}
    good = {first: 1, other: int(other_good)}
    text = "".join(f"{slot}_OK={good[slot]}\n{slot}_TRY=0\n" for slot in SLOTS)
    return f"{_HEAD}ORDER={first} {other}\n{text}".encode().ljust(BYTES, b"#")


def is_whole(data: bytes) -> bool:
    """Whether GRUB and RAUC can read and write it."""
    return len(data) == BYTES and _WHOLE.fullmatch(data) is not None and b"\nORDER=" in data


def is_damaged(boot: Path) -> bool:
    """Whether the boot partition at ``boot`` is of a PC and has no whole file; raises CommandError (71)."""
    path = boot / NAME
    with refused(Exit.SYSTEM, path):
        return path.parent.exists() and not (path.exists() and is_whole(path.read_bytes()))


def found_good(boot: Path) -> str:
    """The slot that was found good last; empty if that is not known."""
    with suppress(OSError, UnicodeDecodeError):
        return (boot / _GOOD).read_text().strip()
    return ""


def note_good(boot: Path, slot: str) -> None:
    """Have ``slot`` there as the one that was found good last, on a PC; empty: none. Raises CommandError (71)."""
    if (boot / _GOOD).parent.exists() and found_good(boot) != slot:
        put(boot / _GOOD, slot.encode())
