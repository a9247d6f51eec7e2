"""What a person sees of a build: steps, how far each is and how long it still takes."""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

_EVERY = {True: 1.0, False: 30.0}  # seconds between two lines of progress: on a terminal, elsewhere
_WIDTH = 110


class Watch(Protocol):
    """Somebody who is told. ``done`` is a share from 0 to 1, ``left`` are seconds; None: not known."""

    def begin(self, step: str, number: int, of: int, seconds: float | None) -> None:
        """A step begins, which took ``seconds`` the last time."""

    def progress(self, done: float | None = None, doing: str = "") -> None:
        """How far the step is; called often."""

    def end(self, cached: bool) -> None:
        """The step is over; ``cached``: its result was there already."""

    def note(self, text: str) -> None:
        """What a person should know of the result, and is no failure."""

    def result(self, facts: Mapping[str, Any], lines: list[str]) -> None:
        """What came of all of it."""


class _Pace:
    """The present step: since when it runs, how far it is, when that was told last."""

    def __init__(self, step: str, number: int, of: int, seconds: float | None) -> None:
        self.step, self.place, self.expected = step, f"{number}/{of}", seconds
        self.began = time.monotonic()
        self.told = self.began

    def left(self, done: float | None) -> float | None:
        """Seconds: by what is done, or else by what the step took the last time."""
        spent = time.monotonic() - self.began
        if done:
            return spent / done - spent
        return max(0.0, self.expected - spent) if self.expected is not None else None

    def due(self, every: float) -> bool:
        now = time.monotonic()
        if now - self.told < every:
            return False
        self.told = now
        return True


class Text:
    """For a person: results on standard output, progress on standard error; a terminal has one line that changes."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._pace: _Pace | None = None

    def begin(self, step: str, number: int, of: int, seconds: float | None) -> None:
        """See Watch."""
        self._pace = _Pace(step, number, of, seconds)
        self._show(self._line(self._pace, None, ""))

    def progress(self, done: float | None = None, doing: str = "") -> None:
        """See Watch."""
        if self._pace and self._pace.due(_EVERY[self._terminal]):
            self._show(self._line(self._pace, done, doing))

    def end(self, cached: bool) -> None:
        """See Watch."""
        if self._pace:
            spent = _clock(time.monotonic() - self._pace.began)
            self._show(f"{self._pace.place} {self._pace.step}: {'from the cache' if cached else f'done in {spent}'}")
            if self._terminal:
                print(file=sys.stderr)
        self._pace = None

    def note(self, text: str) -> None:
        """See Watch."""
        print(f"build-image: {text}", file=sys.stderr, flush=True)

    def result(self, _facts: Mapping[str, Any], lines: list[str]) -> None:
        """See Watch."""
        print("\n".join(lines), flush=True)

    def _show(self, line: str) -> None:
        before, after = ("\r\x1b[K", "") if self._terminal else ("build-image: ", "\n")
        print(before + line, end=after, file=sys.stderr, flush=True)

    @staticmethod
    def _line(pace: _Pace, done: float | None, doing: str) -> str:
        left = pace.left(done)
        parts = [
            f"{pace.place} {pace.step}",
            *([f"{round(100 * done)} %"] if done is not None else []),
            *([f"about {_clock(left)} left"] if left else []),
            *([doing] if doing else []),
        ]
        return ", ".join(parts)[:_WIDTH]


class Json:
    """For a program: one object a line on standard output."""

    def __init__(self) -> None:
        self._pace: _Pace | None = None

    def begin(self, step: str, number: int, of: int, seconds: float | None) -> None:
        """See Watch."""
        self._pace = _Pace(step, number, of, seconds)
        self._tell("begin", number=number, of=of, seconds_left=seconds)

    def progress(self, done: float | None = None, doing: str = "") -> None:
        """See Watch."""
        if self._pace and self._pace.due(_EVERY[True]):
            left = self._pace.left(done)
            self._tell("progress", done=done, seconds_left=None if left is None else round(left), doing=doing)

    def end(self, cached: bool) -> None:
        """See Watch."""
        spent = time.monotonic() - self._pace.began if self._pace else 0
        self._tell("end", cached=cached, seconds=round(spent, 1))
        self._pace = None

    def note(self, text: str) -> None:
        """See Watch."""
        print(json.dumps({"event": "note", "text": text}), flush=True)

    def result(self, facts: Mapping[str, Any], _lines: list[str]) -> None:
        """See Watch."""
        print(json.dumps({"event": "result", **facts}), flush=True)

    def _tell(self, event: str, **facts: object) -> None:
        step = self._pace.step if self._pace else None
        print(json.dumps({"event": event, "step": step, **facts}), flush=True)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


def last_line(log: Path) -> str:
    """The last whole line of ``log``: what a command is at."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 2000))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""
