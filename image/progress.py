"""What a person or a program sees of a long command: its steps, how far each is and how long it still takes."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tributary.daemons.text import scaled

_WIDTH = 110


class _Step:
    """The present step: since when it runs, and after how many seconds its progress was last shown."""

    def __init__(self, name: str, place: str, seconds: float | None) -> None:
        self.name, self.place, self.expected = name, place, seconds
        self.began, self.shown = time.monotonic(), 0.0

    @property
    def spent(self) -> float:
        return time.monotonic() - self.began

    def left(self, done: float | None) -> float | None:
        """Seconds: by what is done, or else by what the step took the last time."""
        if done:
            return self.spent / done - self.spent
        return max(0.0, self.expected - self.spent) if self.expected is not None else None


class Progress:
    """Shows nothing; those below do."""

    _every = 0.0
    """Seconds between two lines of progress."""

    def __init__(self) -> None:
        self._step: _Step | None = None

    def begin(self, step: str, place: str, seconds: float | None = None) -> None:
        """A step begins, such as the second of four, 2/4; it took ``seconds`` the last time, None if not known."""
        self._step = _Step(step, place, seconds)
        self._tell("begin", self._step, {"place": place, "seconds_left": seconds})

    def update(self, done: float | None = None, doing: str = "") -> None:
        """How far the step is, a share from 0 to 1, or None if not known; called often."""
        step = self._step
        if step and step.spent - step.shown >= self._every:
            step.shown, left = step.spent, step.left(done)
            facts = {"done": done, "seconds_left": None if left is None else round(left), "doing": doing}
            self._tell("progress", step, facts)

    def end(self, cached: bool = False) -> None:
        """The step is over; ``cached``: its result was there already."""
        if self._step:
            self._tell("end", self._step, {"cached": cached, "seconds": round(self._step.spent, 1)})
        self._step = None

    def _tell(self, event: str, step: _Step, facts: Mapping[str, Any]) -> None:
        """Show one of the three."""

    def note(self, text: str) -> None:
        """What a person should know of the result, and is no failure."""

    def event(self, name: str, facts: Mapping[str, Any], lines: list[str]) -> None:
        """Something was found or done: ``facts`` for a program, ``lines`` for a person."""

    def failed(self, code: int, message: str, notes: list[str]) -> None:
        """It ended early; ``message`` goes to standard error anyway."""


class Text(Progress):
    """For a person: results on standard output, progress on standard error; a terminal has one line that changes."""

    def __init__(self, program: str) -> None:
        super().__init__()
        self._program = program
        self._terminal = sys.stderr.isatty()
        self._every = 1.0 if self._terminal else 30.0

    def note(self, text: str) -> None:
        print(f"{self._program}: {text}", file=sys.stderr, flush=True)

    def event(self, _name: str, _facts: Mapping[str, Any], lines: list[str]) -> None:
        print("\n".join(lines), flush=True)

    def failed(self, _code: int, _message: str, notes: list[str]) -> None:
        if self._terminal and self._step:
            print(file=sys.stderr)
        for note in notes:
            self.note(note)

    def _tell(self, event: str, step: _Step, facts: Mapping[str, Any]) -> None:
        begin, end = ("\r\x1b[K", "") if self._terminal else (f"{self._program}: ", "\n")
        name = f"{step.place} {step.name}"
        if event == "end":
            how = "from the cache" if facts["cached"] else f"done in {clock(facts['seconds'])}"
            print(f"{begin}{name}: {how}", file=sys.stderr, flush=True)
            return
        done, left, doing = facts.get("done"), facts["seconds_left"], facts.get("doing")
        parts = [
            name,
            *([f"{round(100 * done)} %"] if done is not None else []),
            *([f"about {clock(left)} left"] if left else []),
            *([doing] if doing else []),
        ]
        print(begin + ", ".join(parts)[:_WIDTH], end=end, file=sys.stderr, flush=True)


class Json(Progress):
    """For a program: one object a line on standard output."""

    _every = 1.0

    def note(self, text: str) -> None:
        self.event("note", {"text": text}, [])

    def event(self, name: str, facts: Mapping[str, Any], _lines: list[str]) -> None:
        print(json.dumps({"event": name, **facts}), flush=True)

    def failed(self, code: int, message: str, notes: list[str]) -> None:
        self.event("failed", {"code": code, "error": message, "notes": notes}, [])

    def _tell(self, event: str, step: _Step, facts: Mapping[str, Any]) -> None:
        self.event(event, {"step": step.name, **facts}, [])


def clock(seconds: float) -> str:
    """Minutes and seconds: ``2:05``."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


@contextmanager
def step(progress: Progress, name: str, place: str, total: int) -> Iterator[Callable[[int], None]]:
    """A step of ``total`` bytes, such as 2/4; gives a function that takes how many more are done."""
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress.update(done / total if total else None, f"{scaled(done, 'B')} of {scaled(total, 'B')}")

    progress.begin(name, place)
    yield advance
    progress.end()
