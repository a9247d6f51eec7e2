"""What unit tests share: the converter, where it is built or can be, and where a fleet's status is."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.testbed import native
from tributary.api import fleet_file
from tributary.settings.errors import CommandError, Exit


@pytest.fixture(scope="session")
def converter_accepts() -> Callable[[Path], None]:
    """Has the native converter check a configuration; who has neither it nor cargo leaves the test out."""
    try:
        program = native.build().converter
    except CommandError as missing:
        if missing.code != Exit.UNAVAILABLE:
            raise
        pytest.skip(str(missing))

    def check(settings: Path) -> None:
        command = [str(program), "--check", "--config", str(settings)]
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")

    return check


@pytest.fixture
def fleet_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that a fleet's program writes, which is not there yet."""
    monkeypatch.setattr(fleet_file, "FILE", tmp_path / "status.json")
    return fleet_file.FILE
