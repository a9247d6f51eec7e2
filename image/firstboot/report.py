"""What a person gets to see: two files beside tributary.toml, the console, and the lines above its login prompt."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from image.firstboot.files import inside
from image.firstboot.reading import NAME
from tributary.daemons.state_file import write_atomic
from tributary.settings.errors import CommandError

ERRORS, APPLIED = "tributary-errors.txt", "tributary-applied.txt"
_ISSUE = "/etc/issue.d/50-tributary.issue"


@dataclass(frozen=True)
class Report:
    """Where to show it: the boot partition's folder ``card``, the system's root, and the console, if there is one."""

    card: Path
    root: Path
    console: Path | None

    def refused(self, lines: Sequence[str], last: bool) -> None:
        """What could not be, in ``lines``; ``last``: whether an earlier file was applied, and holds."""
        holds = "What was applied before still holds." if last else "Nothing was set up."
        text = f"Tributary could not apply {NAME} of the boot partition. {holds}\n"
        text += "Correct these lines, and start the box anew:\n" + "".join(f"  {line}\n" for line in lines)
        self._write(self.card / ERRORS, text)
        self._write(inside(self.root, _ISSUE), f"{_escaped(text)}\n")
        self._say(text)

    def note(self, line: str) -> None:
        """Something that no setting mends."""
        print(f"firstboot: {line}", file=sys.stderr)
        self._say(f"Tributary: {line}")

    def fine(self) -> bool:
        """What was wrong is so no longer; returns whether anything was."""
        errors = self.card / ERRORS
        was_wrong = errors.exists()
        with suppress(OSError):  # a card that cannot be written
            errors.unlink(missing_ok=True)
        return was_wrong

    def applied(self, headline: str, steps: Sequence[str], addresses: Sequence[str]) -> None:
        """What the box is now. The prompt shows addresses by agetty's escapes, which follow them as they change."""
        rest = "".join(f"  {step}\n" for step in steps)
        where = f"Addresses: {', '.join(addresses)}.\n" if addresses else ""
        self._write(self.card / APPLIED, f"{headline}\n{where}{rest}")
        self._write(inside(self.root, _ISSUE), f"{_escaped(headline)}\nAddresses: \\4 \\6\n{_escaped(rest)}\n")
        self._say(f"{headline}\n{rest}")

    def _write(self, path: Path, text: str) -> None:
        """The card is spared a write of what it has. One that cannot be written is no reason to stop."""
        if path.exists() and path.read_text(errors="replace") == text:
            return
        try:
            with suppress(OSError):  # which the write finds as well
                path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, text.encode())
        except CommandError as error:
            print(f"firstboot: {error}", file=sys.stderr)

    def _say(self, text: str) -> None:
        if self.console is not None:
            with suppress(OSError), self.console.open("w") as console:
                console.write(f"\n{text}\n")


def _escaped(text: str) -> str:
    """As agetty(8) shows it unchanged."""
    return text.replace("\\", "\\\\")
