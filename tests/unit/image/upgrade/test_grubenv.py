"""GRUB's variables, and what makes them anew when a power cut has damaged them."""

from pathlib import Path

import pytest

from image.upgrade import __main__ as command
from image.upgrade import firmware, grubenv, machine
from image.upgrade.__main__ import _System
from image.upgrade.bundle import Slots
from tests.unit.image.make.test_menu import started
from tests.unit.image.upgrade.test_bundle import status


@pytest.fixture
def boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PC's boot partition."""
    (tmp_path / grubenv.NAME).parent.mkdir()
    monkeypatch.setattr(command, "BOOT", tmp_path)
    return tmp_path


WHOLE = grubenv.environment()


@pytest.mark.parametrize(("data", "whole"), [
    (WHOLE, True),
    (grubenv.environment("B", other_good=True), True),
    # As grub-editenv(1) creates it and sets variables.
    (b"# GRUB Environment Block\n# WARNING: Do not edit!\nA_OK=1\nORDER=B A\n".ljust(1024, b"#"), True),
    (b"", False),
    (bytes(1024), False),
    (WHOLE[:512], False),
    (WHOLE[:512] + bytes(512), False),
    (bytes(512) + WHOLE[512:], False),
    (WHOLE.replace(b"ORDER", b"OR\xffER"), False),
    (b"# GRUB Environment Block\n".ljust(1024, b"#"), False),
])  # fmt: skip
def test_what_a_power_cut_damaged_is_found(boot: Path, data: bytes, whole: bool) -> None:
    (boot / grubenv.NAME).write_bytes(data)
    assert grubenv.is_damaged(boot) is not whole


def test_a_file_that_is_not_there_is_damage_on_a_pc_alone(boot: Path) -> None:
    assert grubenv.is_damaged(boot)
    assert not grubenv.is_damaged(boot / "grub")


OLD, NEW = _System("0.1.0"), _System("0.2.0")


@pytest.mark.parametrize(("slot", "other", "good", "variables"), [
    ("A", _System(), "", "ORDER=A B A_OK=1 A_TRY=0 B_OK=0 B_TRY=0"),
    ("A", NEW, "", "ORDER=A B A_OK=1 A_TRY=0 B_OK=1 B_TRY=0"),
    # A person has gone back to the version before.
    ("A", NEW, "A", "ORDER=A B A_OK=1 A_TRY=0 B_OK=1 B_TRY=0"),
    # B ran before; A is what GRUB takes without its variables.
    ("A", NEW, "B", "ORDER=B A A_OK=1 A_TRY=0 B_OK=1 B_TRY=0"),
    ("A", NEW._replace(given_up="bad: tributary-squid.service"), "B", "ORDER=A B A_OK=1 A_TRY=0 B_OK=0 B_TRY=0"),
    ("A", _System(), "B", "ORDER=A B A_OK=1 A_TRY=0 B_OK=0 B_TRY=0"),
    # It was not found good before its first start was cut.
    ("A", NEW._replace(on_trial=True), "A", "ORDER=A B A_OK=1 A_TRY=0 B_OK=0 B_TRY=0"),
    ("A", NEW._replace(on_trial=True), "B", "ORDER=A B A_OK=1 A_TRY=0 B_OK=0 B_TRY=0"),
    ("B", OLD, "B", "ORDER=B A A_OK=1 A_TRY=0 B_OK=1 B_TRY=0"),
    ("B", OLD._replace(given_up="bad: tributary-squid.service"), "", "ORDER=B A A_OK=0 A_TRY=0 B_OK=1 B_TRY=0"),
])  # fmt: skip
def test_the_slot_that_was_found_good_last_is_first_again_and_the_other_one_the_way_back_if_it_is_one(
    boot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slot: str, other: _System, good: str, variables: str
) -> None:
    monkeypatch.setattr(command, "_inside", {f"/dev/tributary/root-{'b' if slot == 'A' else 'a'}": other}.__getitem__)
    (boot / grubenv.NAME).write_bytes(bytes(1024))
    grubenv.note_good(boot, good)
    first = command._repair(slot)
    assert not grubenv.is_damaged(boot)
    lines = (boot / grubenv.NAME).read_text().rstrip("#").splitlines()[1:]
    assert " ".join(lines) == variables
    assert started(tmp_path, **dict(line.split("=") for line in lines))["default"] == first


@pytest.fixture
def did(boot: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a PC is had to do that runs slot A, while a good newer system is in slot B."""
    done: list[str] = []
    monkeypatch.setattr(command, "need_root", lambda _why: None)
    monkeypatch.setattr(firmware, "running", lambda: "A")
    monkeypatch.setattr(command, "_inside", lambda _device: NEW)
    monkeypatch.setattr(machine, "restart", lambda: done.append("restart"))
    monkeypatch.setattr(machine, "mark", lambda state, slot: done.append(f"{state} {slot}"))
    (boot / grubenv.NAME).write_bytes(bytes(1024))
    return done


def test_a_slot_that_was_found_good_last_starts_again_once_after_damage(boot: Path, did: list[str]) -> None:
    grubenv.note_good(boot, "B")
    command._confirm()
    assert did == ["restart"]
    (boot / grubenv.NAME).write_bytes(bytes(1024))  # the disk loses what is written
    command._confirm()
    assert did == ["restart", "good booted"]
    assert grubenv.found_good(boot) == "A"


def test_a_slot_that_a_person_goes_back_to_is_first_also_after_damage(
    boot: Path, did: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    grubenv.note_good(boot, "A")
    monkeypatch.setattr(machine, "slots", lambda: Slots.of(status(other="good")))
    command.main(["back"])
    assert did == ["active other"]
    command._confirm()
    assert did == ["active other", "restart"]


def test_what_is_found_good_is_noted_if_it_changes(boot: Path, did: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    command._confirm()
    assert (did, grubenv.found_good(boot)) == (["good booted"], "A")
    monkeypatch.setattr(grubenv, "put", None)  # no write puts the boot partition at risk
    command._confirm()
    assert did == ["good booted", "good booted"]


def test_a_raspberry_pi_has_no_such_note(tmp_path: Path) -> None:
    grubenv.note_good(tmp_path, "A")
    assert list(tmp_path.iterdir()) == [] and grubenv.found_good(tmp_path) == ""
