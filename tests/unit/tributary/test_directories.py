import fcntl
import os
import shutil
import threading
from pathlib import Path

import pytest

from tests import ordinary_user
from tributary.daemons import directories

USUAL = Path("/var/lib/usual")


def test_a_daemon_keeps_things_where_the_service_manager_says_or_in_the_usual_place() -> None:
    variables = {"STATE_DIRECTORY": "/var/lib/one:/var/lib/two", "RUNTIME_DIRECTORY": "/run/a"}
    assert directories.state(USUAL, variables) == Path("/var/lib/one")
    assert directories.runtime(USUAL, variables) == Path("/run/a")
    assert directories.state(USUAL, {}) == directories.runtime(USUAL, {"RUNTIME_DIRECTORY": ""}) == USUAL


def test_a_folder_that_another_daemon_makes_at_the_same_time_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "exists", lambda _: False)
    for _ in range(2):
        directories.make_run(tmp_path / "run")
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o755


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


@ordinary_user.needs_root
def test_no_ordinary_user_can_hold_a_lock_of_roots() -> None:
    with ordinary_user.folder() as folder:
        path = folder / "one.lock"
        with directories.lock_file(path), ordinary_user.holding(folder, path) as held:
            assert held == [folder]
        with ordinary_user.holding(folder), directories.lock_file(path):
            pass


@ordinary_user.needs_root
def test_a_lock_that_was_open_to_everybody_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "one.lock"
    path.touch(0o644)
    with directories.lock_file(path) as descriptor:
        assert os.fstat(descriptor).st_mode & 0o777 == 0o600


@ordinary_user.needs_root
def test_somebody_elses_file_is_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "one.lock"
    path.touch()
    os.chown(path, 65534, 65534)
    with pytest.raises(PermissionError, match="somebody else's"), directories.lock_file(path, wait=True):
        pass
    assert path.exists()
    (link := tmp_path / "two.lock").symlink_to(path)
    with pytest.raises(OSError, match="symbolic link"), directories.lock_file(link):
        pass


def test_who_waits_for_a_lock_gets_it_when_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "one.lock"
    got = threading.Event()

    def wait() -> None:
        with directories.lock_file(path, wait=True):
            got.set()

    waiting = threading.Thread(target=wait, daemon=True)
    with directories.lock_file(path):
        waiting.start()
        assert not got.wait(0.1)
    assert got.wait(10)
    waiting.join(10)
    assert not path.exists()


def test_a_lock_that_has_taken_the_place_of_one_whose_folder_went_stays(tmp_path: Path) -> None:
    folder = tmp_path / "testbed"
    folder.mkdir()
    lock = folder / "testbed.lock"
    with directories.lock_file(lock):
        shutil.rmtree(folder)
        folder.mkdir()
        lock.touch()
    assert lock.exists()
