"""GRUB's variables, and what makes them anew when a power cut has damaged them."""

from pathlib import Path

import pytest

from image.upgrade import __main__ as command
from image.upgrade import grubenv
from tests.unit.image.make.test_menu import started


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


@pytest.mark.parametrize(("slot", "other", "variables"), [
    ("A", ("", ""), "ORDER=A B A_OK=1 A_TRY=0 B_OK=0 B_TRY=0"),
    ("A", ("0.2.0", ""), "ORDER=A B A_OK=1 A_TRY=0 B_OK=1 B_TRY=0"),
    ("B", ("0.1.0", ""), "ORDER=B A A_OK=1 A_TRY=0 B_OK=1 B_TRY=0"),
    ("B", ("0.1.0", "bad: tributary-squid.service"), "ORDER=B A A_OK=0 A_TRY=0 B_OK=1 B_TRY=0"),
])  # fmt: skip
def test_the_slot_that_runs_is_first_again_and_the_other_one_the_way_back_if_it_is_one(
    boot: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    slot: str,
    other: tuple[str, str],
    variables: str,
) -> None:
    monkeypatch.setattr(command, "_inside", {f"/dev/tributary/root-{'b' if slot == 'A' else 'a'}": other}.__getitem__)
    (boot / grubenv.NAME).write_bytes(bytes(1024))
    command._repair(slot)
    assert not grubenv.is_damaged(boot)
    lines = (boot / grubenv.NAME).read_text().rstrip("#").splitlines()[1:]
    assert " ".join(lines) == variables
    assert started(tmp_path, **dict(line.split("=") for line in lines))["default"] == slot
