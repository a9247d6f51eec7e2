"""What is shown while it runs: lines for a person, or one JSON object a line for a program."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from image.flash.pace import Pace, Progress
from image.flash.sizes import sized

_EVERY = {"terminal": 0.25, "pipe": 10.0, "json": 1.0}  # seconds between two looks at the progress


class Report(Protocol):
    """One of the two below."""

    def facts(self, event: str, facts: dict[str, Any], lines: list[str]) -> None:
        """Something was found or done: ``facts`` for a program, ``lines`` for a person."""

    def step(self, name: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        """A context manager for a step of ``total`` bytes; gives a function that takes how many are done."""

    def failed(self, code: int, message: str, notes: list[str]) -> None:
        """It ended early; ``message`` goes to standard error anyway."""


class Text:
    """For a person: facts on standard output, progress on standard error."""

    def facts(self, _event: str, _facts: dict[str, Any], lines: list[str]) -> None:
        """See Report."""
        print("\n".join(lines), flush=True)

    @contextmanager
    def step(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """See Report; a terminal has one line that changes."""
        terminal = sys.stderr.isatty()
        before, after = ("\r\x1b[K", "") if terminal else ("", "\n")

        def show(progress: Progress) -> None:
            print(before + progress_line(progress), end=after, file=sys.stderr, flush=True)

        try:
            with _paced(name, total, _EVERY["terminal" if terminal else "pipe"], show) as advance:
                yield advance
        finally:
            if terminal:
                print(file=sys.stderr, flush=True)

    def failed(self, _code: int, _message: str, notes: list[str]) -> None:
        """See Report."""
        for note in notes:
            print(f"flash-pi: {note}", file=sys.stderr, flush=True)


class Json:
    """For a program."""

    def facts(self, event: str, facts: dict[str, Any], _lines: list[str]) -> None:
        """See Report."""
        print(json.dumps({"event": event, **facts}), flush=True)

    @contextmanager
    def step(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """See Report."""
        with _paced(name, total, _EVERY["json"], self._show) as advance:
            yield advance

    def _show(self, progress: Progress) -> None:
        facts = {"step": progress.step, "bytes": progress.done, "of": progress.total}
        rate, left = (None if value is None else round(value) for value in (progress.rate, progress.seconds_left))
        self.facts("progress", {**facts, "bytes_per_second": rate, "seconds_left": left}, [])

    def failed(self, code: int, message: str, notes: list[str]) -> None:
        """See Report."""
        self.facts("failed", {"code": code, "error": message, "notes": notes}, [])


@contextmanager
def _paced(name: str, total: int, every: float, show: Callable[[Progress], None]) -> Iterator[Callable[[int], None]]:
    """Shows the beginning of a step, its end if it comes to one, and now and then how far it is."""
    last = time.monotonic()
    pace = Pace(name, total, last)
    show(pace.at(last, 0))

    def advance(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= every:
            last = now
            show(pace.at(now, done))

    yield advance
    show(pace.at(time.monotonic(), total))


def progress_line(progress: Progress) -> str:
    """``write       37 %, 612 MB of 1.65 GB, 18.2 MB/s, 0:57 left``."""
    share = 100 * progress.done // progress.total if progress.total else 100
    parts = [f"{progress.step:<10} {share:3d} %", f"{sized(progress.done)} of {sized(progress.total)}"]
    if progress.rate is not None:
        parts.append(f"{sized(round(progress.rate))}/s")
    if progress.seconds_left is not None and progress.done < progress.total:
        minutes, seconds = divmod(round(progress.seconds_left), 60)
        parts.append(f"{minutes}:{seconds:02d} left")
    return ", ".join(parts)
