"""What was found about one thing, and what fixes it. Pure."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

Command = tuple[str, ...]
"""A program and its arguments."""


class State(Enum):
    """``NOTE``: it works with limits. ``UNKNOWN``: it could not be examined."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """What was found by one ``check``.

    ``fix`` are the commands that fix it, in order; ``advice`` is for what no command can do.
    """

    check: str
    state: State
    message: str
    fix: Sequence[Command] = ()
    advice: str = ""

    def as_json(self) -> dict[str, object]:
        """The finding as JSON types; ``fix`` is a list of shell lines."""
        return {
            "check": self.check,
            "state": self.state.value,
            "message": self.message,
            "fix": [shlex.join(command) for command in self.fix],
            "advice": self.advice,
        }


def ok(check: str, message: str) -> Finding:
    """Nothing to do."""
    return Finding(check, State.OK, message)


def fixes(findings: Iterable[Finding]) -> list[Command]:
    """The commands that fix everything wrong, each once."""
    wrong = [finding for finding in findings if finding.state is State.WRONG]
    return list(dict.fromkeys(command for finding in wrong for command in finding.fix))
