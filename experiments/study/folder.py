"""What is kept of a run: a folder in which every reading has a file of its own once it is there, so that the run can go
on where it stopped; and, under version control, four files under names that stay, with the readings in one of them.
"""

import csv
import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from experiments.results import partial_folder, write_json
from experiments.study import tidy
from experiments.study.readings import Point, Reading, Readings, Verdict, file_name
from tributary.daemons.directories import lock_file
from tributary.daemons.state_file import write_atomic
from tributary.settings.errors import CommandError, Exit

_PUBLISHED = "readings.jsonl.xz"
"""The testbeds in one line, and then a reading a line."""
_SERIES = {"series", "sending"}


@dataclass(frozen=True)
class Record:
    """What the files of a whole run say; ``plot`` is an SVG document, or None where that file is missing."""

    manifest: Mapping[str, Any]
    testbeds: Sequence[Mapping[str, Any]]
    readings: Readings
    verdicts: Sequence[Verdict]
    plot: str | None

    @classmethod
    def read(cls, path: Path, testbeds: Sequence[Mapping[str, Any]], readings: Readings) -> Self:
        """With what lies at ``path`` beside testbeds and readings; raises OSError or ValueError if that cannot be."""
        plot = path / "plot.svg"
        return cls(
            manifest=json.loads((path / "manifest.json").read_text()),
            testbeds=testbeds,
            readings=readings,
            verdicts=[Verdict.read(each) for each in json.loads((path / "verdicts.json").read_text())],
            plot=plot.read_text() if plot.exists() else None,
        )

    @classmethod
    def published(cls, path: Path) -> Self | None:
        """What was published in ``path``, if anything was; raises CommandError (66) for files that cannot be read."""
        if not (path / _PUBLISHED).exists():
            return None
        try:
            text = lzma.decompress((path / _PUBLISHED).read_bytes()).decode()
            testbeds, *readings = (json.loads(line) for line in text.splitlines())
            return cls.read(path, testbeds, Readings(map(Reading.read, readings)))
        except (OSError, ValueError, KeyError, lzma.LZMAError) as error:
            raise CommandError(Exit.NO_INPUT, f"{path}: cannot be read: {error}") from error

    def publish(self, path: Path) -> None:
        """Write it to the folder ``path``, in place of what is there; raises CommandError (71) if that cannot be."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            write_json(path / "manifest.json", self.manifest)
            write_json(path / "verdicts.json", [verdict.as_json() for verdict in self.verdicts])
            lines = [list(self.testbeds), *(_rounded(reading.as_json()) for reading in self.readings)]
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (path / _PUBLISHED).write_bytes(lzma.compress(text.encode(), preset=9))
            if self.plot is not None:
                (path / "plot.svg").write_text(self.plot)
        except OSError as error:
            raise CommandError(Exit.SYSTEM, f"{path}: cannot be written: {error.strerror}") from error


def _rounded(reading: dict[str, Any]) -> dict[str, Any]:
    """With series as plots show them: times to 10 ms, and three digits of all else; they are most of a reading."""
    for kind in _SERIES & reading.keys():
        reading[kind] = {name: [_short(*each) for each in series] for name, series in reading[kind].items()}
    return reading


def _short(at: float, *values: float) -> list[float]:
    return [round(at, 2), *(float(f"{value:.3g}") for value in values)]


@dataclass(frozen=True)
class Folder:
    """``path`` is TIME.partial until the run is whole. ``plan`` is what two runs must agree in to be one."""

    path: Path

    @classmethod
    @contextmanager
    def resumed_or_begun(cls, parent: Path, plan: Mapping[str, Any]) -> Iterator[Self]:
        """The newest unfinished run of ``plan`` in ``parent``, or a new one: nobody else's for the length of the block.

        Raises CommandError (exit 75) if another command goes on with that run.
        """
        for path in sorted(parent.glob("*.partial"), reverse=True):
            if _read(path / "plan.json") != plan:
                continue
            with _locked(path):
                if path.exists():  # else it has become whole meanwhile
                    yield cls(path)
                    return
        path = partial_folder(parent)
        with _locked(path):
            (path / "readings").mkdir()
            write_json(path / "plan.json", plan)
            yield cls(path)

    @classmethod
    def newest(cls, parent: Path) -> Self | None:
        whole = [path.parent for path in parent.glob("*/plan.json") if path.parent.suffix != ".partial"]
        return cls(max(whole)) if whole else None

    def record(self) -> Record:
        """All of a whole run; raises CommandError (exit 66) if a file that it needs is not there or cannot be read."""
        try:
            testbeds = [json.loads(line) for line in (self.path / "testbeds.jsonl").read_text().splitlines()]
            return Record.read(self.path, testbeds, self.readings())
        except (OSError, ValueError) as error:
            raise CommandError(Exit.NO_INPUT, f"{self.path}: cannot be read: {error}") from error

    def readings(self) -> Readings:
        return Readings(
            Reading.read(json.loads(path.read_text())) for path in sorted((self.path / "readings").glob("*.json"))
        )

    def has(self, point: Point, repetition: int) -> bool:
        return _read(self._file(point, repetition)) is not None

    def add(self, reading: Reading) -> None:
        """Keep ``reading``: whole, or not at all."""
        write_json(self._file(reading.point, reading.repetition), reading.as_json())

    def note_testbed(self, about: Mapping[str, Any]) -> None:
        """Add a line to testbeds.jsonl: what some of the readings were measured on."""
        path = self.path / "testbeds.jsonl"
        before = path.read_text() if path.exists() else ""
        write_atomic(path, f"{before}{json.dumps(about)}\n".encode(), mode=0o666)

    def write_tables(self, experiment: str, readings: Readings) -> None:
        """values.csv, series.csv and sending.csv: the same as the readings' files, tidy."""
        for name in tidy.TABLES:
            with (self.path / f"{name}.csv").open("w", newline="") as file:
                csv.writer(file).writerows(tidy.table(name, experiment, readings))

    def _file(self, point: Point, repetition: int) -> Path:
        return self.path / "readings" / f"{file_name(point, repetition)}.json"


def _locked(partial: Path) -> AbstractContextManager[int]:
    """The lock is beside the folder, which has another name once it is whole."""
    message = f"{partial}: another command goes on with this run: accepted: other options, or other --results"
    return lock_file(partial.with_name(f"{partial.name}.lock"), taken=message)


def _read(path: Path) -> Any:
    """None if it is not there, or torn: the machine may have stopped before its bytes were on the disk."""
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
