"""Files of a system, in a folder: all of the actions, or none."""

import os
import stat
from pathlib import Path

import pytest

from image.firstboot.actions import MakeFolder, OnFiles, Owner, RemoveFile, SetPassword, WriteFile
from image.firstboot.files import changed, news
from tests.refusals import command_error
from tests.unit.image.firstboot.systems import YESCRYPT, make_system
from tributary.settings.errors import CommandError, Exit

ME = Owner(os.getuid(), os.getgid())
NEW = WriteFile("/etc/first", "new", owner=ME)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_system(tmp_path)


def contents(root: Path) -> dict[str, object]:
    """Every file below ``root`` with its mode; the lock of passwords stays."""
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode, path.stat().st_uid)
        for path in root.rglob("*")
        if path.is_file() and path.name != ".pwd.lock"
    }


def do(root: Path, *actions: OnFiles) -> None:
    with changed(root, actions):
        pass


def test_files_get_their_text_and_mode_in_folders_that_are_made(root: Path) -> None:
    do(root, WriteFile("/etc/a/b/new", "one\n", 0o440, ME), MakeFolder("/home/x/.ssh", 0o700, ME))
    assert (root / "etc/a/b/new").read_text() == "one\n"
    assert stat.S_IMODE((root / "etc/a/b/new").stat().st_mode) == 0o440
    assert stat.S_IMODE((root / "home/x/.ssh").stat().st_mode) == 0o700


def test_a_file_is_new_unless_it_is_there_with_that_text(root: Path) -> None:
    do(root, WriteFile("/etc/same", "1\n", owner=ME), WriteFile("/etc/other", "1\n", owner=ME))
    wanted = [WriteFile(f"/etc/{name}", f"{text}\n") for name, text in (("same", 1), ("other", 2), ("missing", 1))]
    assert news(root, [*wanted, RemoveFile("/etc/same")]) == {"/etc/other", "/etc/missing"}


def test_an_old_file_is_replaced_and_another_goes(root: Path) -> None:
    (root / "etc/old").write_text("old")
    (root / "etc/gone").write_text("gone")
    do(root, WriteFile("/etc/old", "new", owner=ME), RemoveFile("/etc/gone"), RemoveFile("/etc/never"))
    assert (root / "etc/old").read_text() == "new"
    assert not (root / "etc/gone").exists()
    assert sorted(path.name for path in (root / "etc").iterdir()) == [".pwd.lock", "old", "passwd", "shadow"]


def test_a_link_is_replaced_and_not_followed(root: Path) -> None:
    (root / "etc/target").write_text("theirs")
    (root / "etc/link").symlink_to("target")
    do(root, WriteFile("/etc/link", "ours", owner=ME))
    assert (root / "etc/target").read_text() == "theirs"
    assert not (root / "etc/link").is_symlink()


def test_passwords_are_set_and_locked_and_the_file_stays_as_private(root: Path) -> None:
    do(root, SetPassword("tributary", YESCRYPT), SetPassword("root", None))
    assert (root / "etc/shadow").read_text() == (
        f"root:*:20000:0:99999:7:::\ntributary:{YESCRYPT}:20000:0:99999:7:::\n"
    )
    assert stat.S_IMODE((root / "etc/shadow").stat().st_mode) == 0o640
    do(root, SetPassword("tributary", None))
    assert "\ntributary:!:20000" in (root / "etc/shadow").read_text()


def test_a_user_who_is_missing_is_named_and_nothing_changes(root: Path) -> None:
    before = contents(root)
    with pytest.raises(CommandError, match="no user nobody-here"):
        do(root, WriteFile("/etc/hostname", "x", owner=ME), SetPassword("nobody-here", None))
    assert contents(root) == before


def test_a_system_in_which_nothing_can_be_written_is_told_as_such(root: Path) -> None:
    """As on a root that the kernel has remounted read-only: the card gets the reason."""
    (root / "etc/.pwd.lock").mkdir()
    with command_error(Exit.SYSTEM, "/etc/.pwd.lock: cannot be written: Is a directory"):
        do(root, NEW)


def test_a_file_that_cannot_be_written_leaves_all_as_it_was(root: Path) -> None:
    (root / "etc/first").write_text("old")
    (root / "etc/blocked").mkdir()
    before = contents(root)
    with command_error(Exit.SYSTEM, "blocked: cannot be written"):
        do(root, NEW, RemoveFile("/etc/passwd"), WriteFile("/etc/blocked", "x", owner=ME))
    assert contents(root) == before


@pytest.mark.parametrize("error", [CommandError(Exit.SYSTEM, "systemctl: no"), KeyboardInterrupt()])
def test_what_fails_later_takes_all_files_back(root: Path, error: BaseException) -> None:
    (root / "etc/first").write_text("old")
    before = contents(root)
    second = WriteFile("/etc/second", "new", owner=ME)
    with (
        pytest.raises(type(error)),
        changed(root, [NEW, second, RemoveFile("/etc/passwd"), SetPassword("root", YESCRYPT)]),
    ):
        assert (root / "etc/second").exists()
        raise error
    assert contents(root) == before


def test_what_a_power_cut_left_is_no_obstacle(root: Path) -> None:
    for name in (".hostname.tributary-new", ".hostname.tributary-old", "hostname"):
        (root / "etc" / name).write_text("left")
    do(root, WriteFile("/etc/hostname", "box\n", owner=ME))
    assert (root / "etc/hostname").read_text() == "box\n"
    assert not list((root / "etc").glob(".hostname*"))
