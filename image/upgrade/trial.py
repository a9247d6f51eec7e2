"""Notes in a slot: whether it still has to show that it runs, and why it was given up."""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path("var/lib/tributary/upgrade")
"""Below the slot's root: each slot has its own."""


@dataclass(frozen=True)
class Trial:
    """The notes in the slot below ``root``."""

    root: Path

    @property
    def on(self) -> bool:
        """It was installed, and was not yet found good. tributary-upgrade-back.service asks for the same file."""
        return (self.root / FOLDER / "on-trial").exists()

    @property
    def reason(self) -> str:
        """Why it was given up; empty if it was not."""
        path = self.root / FOLDER / "given-up"
        return path.read_text().strip() if path.exists() else ""

    def begin(self) -> None:
        """It is new."""
        self._write("on-trial", "")

    def passed(self) -> None:
        """It is good."""
        (self.root / FOLDER / "on-trial").unlink(missing_ok=True)

    def failed(self, reason: str) -> None:
        """It is not, for this ``reason``."""
        self._write("given-up", f"{reason}\n")

    def _write(self, name: str, text: str) -> None:
        (self.root / FOLDER).mkdir(parents=True, exist_ok=True)
        (self.root / FOLDER / name).write_text(text)
