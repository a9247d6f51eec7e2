"""Stages: what is there is not made again, and what ends early leaves nothing."""

import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from debs import checkout
from image.make.boards import BOARDS, Role
from image.make.command import Runner
from image.make.order import Making, Order
from image.make.stage import Durations, Stage, run
from image.progress import Progress
from tributary.paths import ROOT
from tributary.settings.errors import CommandError


class Diary(Progress):
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def begin(self, step: str, place: str, seconds: float | None = None) -> None:  # noqa: ARG002
        self.told.append((step, place))

    def end(self, cached: bool = False) -> None:
        self.told.append(cached)


def stage(*sources: str, image: str = "router-rpi", fails: bool = False) -> Stage:
    def make(target: Path, _: Runner) -> None:
        target.write_text(f"{time.monotonic_ns()}")
        if fails:
            raise KeyboardInterrupt

    return Stage("base", image, sources, ".tar", 5, make)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file() and path.suffix not in (".json", ".lock"))


def test_what_was_made_is_not_made_again(tmp_path: Path) -> None:
    diary = Diary()
    run([stage("a")], tmp_path, diary)
    first = stage("a").place(tmp_path).read_text()
    run([stage("a")], tmp_path, diary)
    assert stage("a").place(tmp_path).read_text() == first
    assert diary.told == [("base", "1/1"), False, ("base", "1/1"), True]


def test_what_is_made_of_something_else_takes_the_place_of_the_old_one_of_its_kind(tmp_path: Path) -> None:
    run([stage("a")], tmp_path, Progress())
    run([stage("b")], tmp_path, Progress())
    assert names(tmp_path) == [stage("b").place(tmp_path).name]
    assert stage("a").key != stage("b").key
    run([stage("a")], tmp_path, Progress())
    run([stage("b", image="gateway-rpi")], tmp_path, Progress())
    assert stage("a").place(tmp_path).exists()


def test_an_image_is_made_anew_when_a_file_of_it_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is in no package, before it is committed: the version stays as it was."""
    file = tmp_path / "image/make/files/any/etc/fstab"
    file.parent.mkdir(parents=True)
    for name in ("pyproject.toml", "Cargo.toml", str(file.relative_to(tmp_path))):
        shutil.copy(ROOT / name, tmp_path / name)
    by = ["-c", "user.name=a", "-c", "user.email=a@example.net"]
    for words in (["init", "-q"], ["add", "."], [*by, "commit", "-qm", "a"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(checkout, "ROOT", tmp_path)
    order = Order(BOARDS["x86"], Role.GATEWAY, tmp_path, tmp_path)
    before = Making.of(order)
    file.write_text("/dev/root / ext4 ro\n")
    after = Making.of(order)
    assert after.name == before.name and after.system.key != before.system.key


def test_two_builds_of_one_kind_make_it_once(tmp_path: Path) -> None:
    begun = threading.Event()

    def make(target: Path, _: Runner) -> None:
        begun.set()
        time.sleep(0.3)
        target.write_text("made")

    slow = Stage("base", "router-rpi", (), ".tar", 5, make)
    first = threading.Thread(target=run, args=([slow], tmp_path, Progress()))
    first.start()
    assert begun.wait(10)
    diary = Diary()
    run([slow], tmp_path, diary)
    first.join()
    assert diary.told == [("another build of router-rpi is at work", "0/0"), False, ("base", "1/1"), True]


def test_one_that_ends_early_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run([stage("a", fails=True)], tmp_path, Progress())
    assert names(tmp_path) == []


def test_what_a_killed_build_left_goes_and_what_a_running_one_has_stays(tmp_path: Path) -> None:
    for number in (os.getpid(), 2**22 + 1):  # more than any process has (PID_MAX_LIMIT of the kernel)
        (tmp_path / f".base-router-rpi.{number}.tar").write_text("half")
    run([stage("a")], tmp_path, Progress())
    assert not (tmp_path / f".base-router-rpi.{2**22 + 1}.tar").exists()


def test_how_long_it_takes_is_learnt(tmp_path: Path) -> None:
    times = Durations(tmp_path / "durations.json")
    assert times.of(stage("a")) == 5
    times.remember(stage("a"), 71.26)
    assert times.of(stage("b")) == 71.3


def test_a_file_that_cannot_be_written_and_a_command_that_is_missing_are_named(tmp_path: Path) -> None:
    def full(target: Path, _: Runner) -> None:
        raise OSError(28, "No space left on device", str(target))

    with pytest.raises(CommandError, match="No space left on device"):
        run([Stage("root", "x", (), ".tar", 1, full)], tmp_path, Progress())
    with pytest.raises(CommandError, match="no-such-program is missing"):
        Runner(tmp_path / "log", Progress()).run(["no-such-program"])


def test_a_command_that_fails_shows_the_end_of_what_it_said(tmp_path: Path) -> None:
    runner = Runner(tmp_path / "log", Progress())
    with pytest.raises(CommandError) as failed:
        runner.run(["sh", "-c", "seq 100; echo no room >&2; exit 3"])
    lines = str(failed.value).splitlines()
    assert lines[0] == f"sh -c seq 100; echo no room >&2; exit 3 ended with 3 (all it said: {tmp_path}/log):"
    assert (len(lines), lines[-1]) == (13, "  no room")


def test_a_command_ends_with_us(tmp_path: Path) -> None:
    class Impatient(Progress):
        def update(self, done: float | None = None, doing: str = "") -> None:  # noqa: ARG002
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Runner(tmp_path / "log", Impatient()).run(["sh", "-c", 'echo $$ >"$0"; exec sleep 60', str(tmp_path / "pid")])
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_command_inside_a_root_has_what_it_needs_and_leaves_no_mount(tmp_path: Path) -> None:
    for folder in ("dev", "proc", "tmp", "run", "boot/firmware"):
        (tmp_path / "root" / folder).mkdir(parents=True)
    script = 'test -c "$1/dev/null" && test -d "$1/proc/1" && mountpoint -q "$1/boot/firmware" && touch "$1/tmp/x"'
    script += " && test $$ != 1"  # ischroot(1) compares the first process's root with its own
    Runner(tmp_path / "log", Progress()).around(tmp_path / "root", ["sh", "-c", script, "sh", str(tmp_path / "root")])
    assert list((tmp_path / "root/tmp").iterdir()) == []
    mounts = subprocess.run(["findmnt", "--noheadings", "--output=TARGET"], capture_output=True, text=True, check=True)
    assert str(tmp_path) not in mounts.stdout
