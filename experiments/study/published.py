"""A whole run as it is kept under version control: four files under names that stay, the readings in one of them."""

import json
import lzma
from pathlib import Path
from typing import Any

from experiments.results import write_json
from experiments.study.folder import Record
from experiments.study.readings import Reading, Readings
from tributary.settings.errors import CommandError, Exit

_READINGS = "readings.jsonl.xz"
"""The testbeds in one line, and then a reading a line."""
_SERIES = {"series", "sending"}


def publish(record: Record, path: Path) -> None:
    """Write ``record`` to the folder ``path``, in place of what is there; raises CommandError (71) if that cannot
    be.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        write_json(path / "manifest.json", record.manifest)
        write_json(path / "verdicts.json", [verdict.as_json() for verdict in record.verdicts])
        lines = [list(record.testbeds), *(_rounded(reading.as_json()) for reading in record.readings)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (path / _READINGS).write_bytes(lzma.compress(text.encode(), preset=9))
        if record.plot is not None:
            (path / "plot.svg").write_text(record.plot)
    except OSError as error:
        raise CommandError(Exit.SYSTEM, f"{path}: cannot be written: {error.strerror}") from error


def _rounded(reading: dict[str, Any]) -> dict[str, Any]:
    """With series as plots show them: times to 10 ms, and three digits of all else; they are most of a reading."""
    for kind in _SERIES & reading.keys():
        reading[kind] = {name: [_short(*each) for each in series] for name, series in reading[kind].items()}
    return reading


def _short(at: float, *values: float) -> list[float]:
    return [round(at, 2), *(float(f"{value:.3g}") for value in values)]


def published(path: Path) -> Record | None:
    """What was published in ``path``, if anything was; raises CommandError (66) for files that cannot be read."""
    if not (path / _READINGS).exists():
        return None
    try:
        text = lzma.decompress((path / _READINGS).read_bytes()).decode()
        testbeds, *readings = (json.loads(line) for line in text.splitlines())
        return Record.read(path, testbeds, Readings(map(Reading.read, readings)))
    except (OSError, ValueError, KeyError, lzma.LZMAError) as error:
        raise CommandError(Exit.NO_INPUT, f"{path}: cannot be read: {error}") from error
