"""What was found about one thing, and what mends it. Pure."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

Command = tuple[str, ...]
"""A program and its arguments."""


class State(Enum):
    """``NOTE``: it works, with something less. ``UNKNOWN``: it could not be looked at."""

    FINE = "fine"
    NOTE = "note"
    WRONG = "wrong"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """What was found by one ``check``.

    ``mend`` are commands that put it right, to be run in this order; ``advice`` is for what no command can do.
    """

    check: str
    state: State
    what: str
    mend: Sequence[Command] = ()
    advice: str = ""

    def as_json(self) -> dict[str, object]:
        """For another program; ``mend`` is a list of lines for a shell."""
        return {
            "check": self.check,
            "state": self.state.value,
            "what": self.what,
            "mend": [shlex.join(command) for command in self.mend],
            "advice": self.advice,
        }


def fine(check: str, what: str) -> Finding:
    """Nothing to do."""
    return Finding(check, State.FINE, what)


def mends(findings: Iterable[Finding]) -> list[Command]:
    """What mends all that is wrong, each command once."""
    wrong = [finding for finding in findings if finding.state is State.WRONG]
    return list(dict.fromkeys(command for finding in wrong for command in finding.mend))
