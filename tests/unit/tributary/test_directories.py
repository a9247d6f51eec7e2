import fcntl
import os
from pathlib import Path

import pytest

from tributary.daemons import directories

USUAL = Path("/var/lib/usual")


def test_a_daemon_keeps_things_where_the_service_manager_says_or_in_the_usual_place() -> None:
    variables = {"STATE_DIRECTORY": "/var/lib/one:/var/lib/two", "RUNTIME_DIRECTORY": "/run/a"}
    assert directories.state(USUAL, variables) == Path("/var/lib/one")
    assert directories.runtime(USUAL, variables) == Path("/run/a")
    assert directories.state(USUAL, {}) == directories.runtime(USUAL, {"RUNTIME_DIRECTORY": ""}) == USUAL


def test_a_lock_keeps_others_out_and_its_file_is_removed_with_it(tmp_path: Path) -> None:
    path = tmp_path / "one.lock"
    with directories.lock_file(path):
        assert path.exists()
        with pytest.raises(BlockingIOError), directories.lock_file(path):
            pass
        assert path.exists()
    assert not path.exists()


def test_a_lock_on_a_file_that_its_owner_removes_meanwhile_is_taken_on_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "one.lock"
    first = directories.lock_file(path)
    first.__enter__()
    flock = fcntl.flock

    def after_the_first_has_ended(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        first.__exit__(None, None, None)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", after_the_first_has_ended)
    with directories.lock_file(path) as descriptor:
        assert os.path.samestat(os.fstat(descriptor), path.stat())
        with pytest.raises(BlockingIOError), directories.lock_file(path):
            pass
