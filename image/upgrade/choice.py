"""Which slot a Raspberry Pi starts, as its boot partition says: the choice, and how it changes. Pure.

The firmware starts what lies in the folder that config.txt names (os_prefix), and counts no starts. So a slot is tried
like this: config.txt names it, back.txt is a config.txt that names the slot before, and the initramfs puts that in its
place before anything else can go wrong. Only a system that was found good has config.txt name its own slot again.

Every version reads what another has written: what is written here must stay as it is.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from tributary.settings.errors import CommandError, Exit

SLOTS = ("A", "B")
CONFIG, BACK, STATES = "config.txt", "back.txt", "slots.txt"

_PREFIX = re.compile(r"^os_prefix=([ab])/[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class Choice:
    """``first`` is the slot in config.txt, ``back`` the one in back.txt, ``good`` those that may be started."""

    first: str
    back: str | None
    good: frozenset[str]

    @classmethod
    def of(cls, config: str, back: str | None, states: str) -> Self:
        """From the three files; there is no back.txt unless a slot is tried. Raises CommandError (71)."""
        lines = (line.split() for line in states.splitlines())
        good = frozenset(words[0] for words in lines if words[1:] == ["good"])
        return cls(named(config), named(back) if back is not None else None, good)

    def prefer(self, slot: str, running: str) -> Self:
        """``slot`` starts next: for good if it is the one that runs, or else on trial."""
        return replace(self, first=slot, back=None if slot == running else running, good=self.good | {slot})

    def judge(self, slot: str, running: str, *, good: bool) -> Self:
        """``slot`` was found good, or must not be started."""
        if not good:
            other = next(each for each in SLOTS if each != slot)
            judged = replace(self, good=self.good - {slot})
            return replace(judged, first=other, back=None) if other in self.good else judged
        judged = replace(self, good=self.good | {slot})
        waiting = self.first != running and self.back == running
        return judged if waiting or slot != running else replace(judged, first=slot, back=None)


def states(good: Iterable[str]) -> str:
    """slots.txt where the slots ``good`` may be started."""
    return "".join(f"{slot} {'good' if slot in good else 'bad'}\n" for slot in SLOTS)


def named(config: str) -> str:
    """The slot that ``config`` names: the firmware takes its last line. Raises CommandError (71) without any."""
    found = _PREFIX.findall(config)
    if not found:
        raise CommandError(Exit.SYSTEM, f"{CONFIG} names no slot: accepted: a line os_prefix=a/ or os_prefix=b/")
    return str(found[-1]).upper()


def naming(config: str, slot: str) -> str:
    """``config`` with another slot, and otherwise as it is: somebody may have changed it for this board."""
    return _PREFIX.sub(f"os_prefix={folder(slot)}/", config)


def folder(slot: str) -> str:
    """What the slot's folder on the boot partition is called."""
    return slot.lower()
