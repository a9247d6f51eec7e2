"""build-image as a person uses it, as far as that builds nothing."""

import io
import json
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from debs.release import Commit
from image import progress
from image.make import foreign, lock, order
from image.make.__main__ import main
from image.make.base import Base
from image.make.boards import BOARDS, Role
from image.make.command import Runner
from image.make.order import Making, Order
from tests.refusals import usage_error
from tests.unit.debs import sample
from tributary.paths import CACHE
from tributary.settings.errors import CommandError


def making(tmp_path: Path, board: str = "x86", role: Role = Role.GATEWAY, checkout: str = "digest") -> Making:
    return Making(Order(BOARDS[board], role, tmp_path / "out", tmp_path / "cache"), sample.release(), checkout)


def test_a_dry_run_says_what_would_be_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--board", "rpi", "--role", "router", "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["stage"] for each in told["stages"]] == ["packages", "base", "root", "disk", "files"]
    assert told["files"][-1].endswith(f"{told['image']}.img.zst")
    assert told["image"].startswith("tributary-router-rpi-0.1.0")


def test_the_name_has_the_version_without_debians_part_and_a_tagged_commit_gives_a_plain_one(tmp_path: Path) -> None:
    assert making(tmp_path).name == "tributary-gateway-x86-0.1.0+git20261121.170133.abc1234"
    tagged = Commit("abc1234def", 1_795_280_493, tags=("v0.1.0",))
    order_ = making(tmp_path).order
    assert Making(order_, sample.release(commit=tagged), "").name == "tributary-gateway-x86-0.1.0"


def test_a_commit_more_leaves_debians_half_as_it_is_and_every_kind_of_image_has_its_own(
    tmp_path: Path,
) -> None:
    one, other = making(tmp_path), making(tmp_path, checkout="another digest")
    same = [mine.name for mine, theirs in zip(one.stages, other.stages, strict=True) if mine.key == theirs.key]
    assert same == ["base"]
    kinds = [making(tmp_path, board, role) for board in BOARDS for role in Role]
    places = [each.place(CACHE) for kind in kinds for each in kind.stages]
    assert len(set(places)) == len(places) == 20


PEM = "-----BEGIN CERTIFICATE-----\n"


def test_with_a_key_there_is_a_bundle_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    certificate = tmp_path / "images.pem"
    certificate.write_text(PEM)
    assert (
        main(["--board", "x86", "--certificate", str(certificate), "--key", "images.key", "--dry-run", "--json"]) == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert [each["stage"] for each in told["stages"]][-2:] == ["files", "bundle"]
    assert any(name.endswith(f"/{told['image']}.raucb") for name in told["files"])


def test_whom_an_image_trusts_is_in_its_root_and_not_in_debians_half(tmp_path: Path) -> None:
    certificate, kinds = tmp_path / "images.pem", []
    for text in (PEM, f"{PEM}another\n"):
        certificate.write_text(text)
        asked = Order(BOARDS["x86"], Role.ROUTER, tmp_path, tmp_path, certificate=certificate)
        kinds.append({each.name: each.key for each in Making(asked, sample.release(), "digest").stages})
    assert {name for name, key in kinds[0].items() if kinds[1][name] == key} == {"packages", "base"}


def test_without_a_lock_nothing_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "LOCK", tmp_path / "x.lock")
    with pytest.raises(CommandError, match=r"x\.lock: has no gateway-x86: --update-lock writes it"):
        order.build(making(tmp_path), progress.Text("build-image"))


class Mmdebstrap(Runner):
    """Makes a base with a newer bash than the lock has."""

    def run(self, command: Sequence[str], _environment: Mapping[str, str] | None = None) -> None:
        (target,) = (Path(word) for word in command if word.endswith(".tar"))
        status = b"Package: bash\nStatus: install ok installed\nVersion: 5.3\n"
        with tarfile.open(target, "w") as archive:
            entry = tarfile.TarInfo("./var/lib/dpkg/status")
            entry.size = len(status)
            archive.addfile(entry, io.BytesIO(status))


def based(tmp_path: Path, strict: bool) -> tuple[Base, Path]:
    path = tmp_path / "x.lock"
    path.write_text("[gateway-x86 router-x86]\nbash=5.2\n")
    base, target = Base(BOARDS["x86"], Role.GATEWAY, path, strict), tmp_path / "base.tar"
    base.make(target, Mmdebstrap(tmp_path / "log", progress.Text("build-image")))
    return base, target


def test_newer_packages_of_debian_are_taken_and_told(tmp_path: Path) -> None:
    base, target = based(tmp_path, strict=False)
    assert base.differences(target) == ["bash: 5.3, locked: 5.2"]


def test_newer_packages_of_debian_are_refused_where_only_the_locked_ones_will_do(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"(?s)1 packages are not those of x\.lock.*bash: 5\.3.*without --locked"):
        based(tmp_path, strict=True)
    assert not (tmp_path / "base.tar").exists()


def test_an_updated_lock_keeps_what_other_images_have(tmp_path: Path) -> None:
    base, _ = based(tmp_path, strict=False)
    keys = [Base(base.board, role, base.lock_path).sources() for role in Role]
    base.update_lock(tmp_path, Mmdebstrap(tmp_path / "log", progress.Text("build-image")))
    assert lock.parse(base.lock_path.read_text(), "") == {"gateway-x86": {"bash": "5.3"}, "router-x86": {"bash": "5.2"}}
    assert [Base(base.board, role, base.lock_path).sources() != key for role, key in zip(Role, keys, strict=True)] == [
        True,
        False,
    ]


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("board", BOARDS)
def test_a_lock_has_what_the_image_asks_for(board: str, role: Role, tmp_path: Path) -> None:
    locked = Order(BOARDS[board], role, tmp_path, tmp_path).debian.locked()
    assert set(BOARDS[board].all_packages(role)) <= set(locked)


NO_FOLDER = "accepted: the address of a folder"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--board amiga", "choose from"),
        ("--board x86 --key images.key", "--key goes with --certificate"),
        ("--board rpi --dry-run --url images.example.net", NO_FOLDER),
        ("--board rpi --dry-run --url ftp://example.net/", NO_FOLDER),
        ("--board rpi --dry-run --url https://example.net/?a=b", NO_FOLDER),
        ("--board rpi --dry-run --url file:///srv", NO_FOLDER),
    ],
)
def test_wrong_arguments_are_refused(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in usage_error(main, words.split(), capsys)


def test_without_qemu_programs_of_another_processor_are_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(CommandError, match="no QEMU for aarch64 programs here: apt-get install qemu-user-static"):
        foreign._qemu("aarch64")


def test_an_entry_that_mmdebstrap_could_not_use_is_refused(tmp_path: Path) -> None:
    entry = tmp_path / "qemu-aarch64"
    entry.write_text("enabled\ninterpreter /usr/bin/qemu-aarch64\nflags: OC\noffset 0\n")
    with pytest.raises(CommandError, match="accepted: enabled, with the flag F"):
        foreign._check(entry)


def test_progress_on_a_pipe_says_which_step_and_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    told = progress.Text("build-image")
    told.begin("root", "3/5", 150)
    told.end()
    assert capsys.readouterr().err.splitlines() == [
        "build-image: 3/5 root, about 2:30 left",
        "build-image: 3/5 root: done in 0:00",
    ]


def test_a_program_gets_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    told = progress.Json()
    told.begin("root", "3/5", 150)
    told.end(cached=True)
    told.event("result", {"image": "x"}, [])
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["event"] for each in events] == ["begin", "end", "result"]
    assert events[1]["cached"] is True
