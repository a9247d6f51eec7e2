"""What was found about one thing, and what fixes it. Pure."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

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

    ``fix`` are the commands that fix it, in order; ``advice`` is for what no command can do. ``fix_name`` is the word
    by which the console's page has it fixed, None where that is for root alone: also where it ``cuts`` connections.
    """

    check: str
    state: State
    message: str
    fix: Sequence[Command] = ()
    advice: str = ""
    fix_name: str | None = None
    cuts: bool = False

    @property
    def as_json(self) -> dict[str, Any]:
        """The fields of ``tributary.api.documents.Finding``, whose module a fresh machine does not have."""
        return {
            "check": self.check,
            "state": self.state.value,
            "message": self.message,
            "fix": list(map(shlex.join, self.fix)),
            "advice": self.advice,
            "fix_name": self.fix_name,
        }


def ok(check: str, message: str) -> Finding:
    """Nothing to do."""
    return Finding(check, State.OK, message)


def fixes(findings: Iterable[Finding]) -> list[Command]:
    """The commands that fix everything wrong, each once."""
    wrong = [finding for finding in findings if finding.state is State.WRONG]
    return list(dict.fromkeys(command for finding in wrong for command in finding.fix))
