"""Stages of a build: each makes a file or folder out of others, and is skipped if it made it already."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from image.make.command import Runner
from image.progress import Progress
from tributary.daemons import directories
from tributary.settings.errors import Exit, refused

Make = Callable[[Path, Runner], None]
"""Makes what the stage gives at a path where nothing is yet."""


@dataclass(frozen=True)
class Stage:
    """A stage for one kind of image: what it is called, what its result is made from, and how long it takes.

    ``sources`` are the texts, or digests of them, of everything that the result depends on; ``seconds`` is what it took
    on two cores, until this machine knows better.
    """

    name: str
    image: str
    sources: tuple[str, ...]
    suffix: str
    seconds: float
    make: Make

    @property
    def key(self) -> str:
        return hashlib.sha256("\0".join((self.name, self.image, *self.sources)).encode()).hexdigest()[:16]

    def place(self, cache: Path) -> Path:
        return cache / f"{self.name}-{self.image}-{self.key}{self.suffix}"


def run(stages: Sequence[Stage], cache: Path, progress: Progress) -> None:
    """Make what is not there yet, in order; raises CommandError. A stage that ends early leaves nothing.

    Two builds of one kind of image do so one after the other.
    """
    (cache / "logs").mkdir(parents=True, exist_ok=True)
    with _alone(cache, stages[0].image, progress):
        for number, stage in enumerate(stages, start=1):
            times = Durations(cache / "durations.json")
            progress.begin(stage.name, f"{number}/{len(stages)}", times.of(stage))
            cached = stage.place(cache).exists()
            if not cached:
                _make(stage, cache, progress, times)
            _forget_others(stage, cache)
            progress.end(cached)


@contextmanager
def _alone(cache: Path, image: str, progress: Progress) -> Iterator[None]:
    path = cache / f"{image}.lock"
    with ExitStack() as stack:
        try:
            stack.enter_context(directories.lock_file(path))
        except BlockingIOError:
            progress.begin(f"another build of {image} is at work", "0/0")
            stack.enter_context(directories.lock_file(path, wait=True))
            progress.end()
        yield


def _make(stage: Stage, cache: Path, progress: Progress, times: "Durations") -> None:
    place = stage.place(cache)
    log = cache / "logs" / f"{stage.name}-{stage.image}.log"
    log.write_bytes(b"")
    partial = cache / f".{stage.name}-{stage.image}.{os.getpid()}{stage.suffix}"
    began = os.times().elapsed
    try:
        with refused(Exit.SYSTEM, cache, ""):
            stage.make(partial, Runner(log, progress))
            partial.rename(place)
    finally:
        remove(partial)
    times.remember(stage, os.times().elapsed - began)


def _forget_others(stage: Stage, cache: Path) -> None:
    """Older results of this stage for the same kind of image, and what a killed build left of it."""
    for path in cache.glob(f"{stage.name}-{stage.image}-*"):
        if path != stage.place(cache):
            remove(path)
    for path in cache.glob(f".{stage.name}-{stage.image}.*"):
        number = path.name.removeprefix(f".{stage.name}-{stage.image}.").partition(".")[0]
        if not Path("/proc", number).exists():
            remove(path)


def remove(path: Path) -> None:
    """What is at ``path``, a folder with all that is in it; that there is nothing is no error."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Durations:
    """How long each stage took the last time, in a file."""

    path: Path

    def of(self, stage: Stage) -> float:
        """Seconds."""
        known = self._read().get(f"{stage.name} {stage.image}")
        return known if known is not None else stage.seconds

    def remember(self, stage: Stage, seconds: float) -> None:
        """It is an estimate: that it cannot be kept is no reason to stop."""
        with suppress(OSError):
            self.path.write_text(
                json.dumps(self._read() | {f"{stage.name} {stage.image}": round(seconds, 1)}, indent=1)
            )

    def _read(self) -> dict[str, float]:
        try:
            return {str(name): float(value) for name, value in json.loads(self.path.read_text()).items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}
