"""A whole run as it is kept under version control: four files under names that stay, the readings in one of them."""

import json
import lzma
from pathlib import Path

from experiments.results import write_json
from experiments.study.folder import Record
from experiments.study.readings import Reading, Readings, Verdict
from tributary.settings.errors import CommandError, Exit

_READINGS = "readings.jsonl.xz"


def publish(record: Record, path: Path) -> None:
    """Write ``record`` to the folder ``path``, in place of what is there; raises CommandError (71) if that cannot
    be.
    """
    lines = "".join(json.dumps(reading.as_json()) + "\n" for reading in record.readings)
    try:
        path.mkdir(parents=True, exist_ok=True)
        write_json(path / "manifest.json", {**record.manifest, "testbeds": list(record.testbeds)})
        write_json(path / "verdicts.json", [verdict.as_json() for verdict in record.verdicts])
        (path / _READINGS).write_bytes(lzma.compress(lines.encode(), preset=9))
        if record.plot is not None:
            (path / "plot.svg").write_text(record.plot)
    except OSError as error:
        raise CommandError(Exit.SYSTEM, f"{path}: cannot be written: {error.strerror}") from error


def published(path: Path) -> Record | None:
    """What was published in ``path``, if anything was; raises CommandError (66) for files that cannot be read."""
    if not (path / _READINGS).exists():
        return None
    plot = path / "plot.svg"
    try:
        manifest = json.loads((path / "manifest.json").read_text())
        lines = lzma.decompress((path / _READINGS).read_bytes()).decode().splitlines()
        return Record(
            testbeds=manifest.pop("testbeds"),
            manifest=manifest,
            readings=Readings(Reading.read(json.loads(line)) for line in lines),
            verdicts=[Verdict.read(each) for each in json.loads((path / "verdicts.json").read_text())],
            plot=plot.read_text() if plot.exists() else None,
        )
    except (OSError, ValueError, KeyError, lzma.LZMAError) as error:
        raise CommandError(Exit.NO_INPUT, f"{path}: cannot be read: {error}") from error
