"""check-image as a person uses it."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from image.check.__main__ import main
from image.make.boards import Role
from tests.refusals import usage_error
from tests.unit.image.miniature import made, needs_tools, put, root_folder
from tributary.settings.errors import CommandError

pytestmark = [needs_tools, pytest.mark.skipif(shutil.which("zstd") is None, reason="no zstd")]


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Packed, and named as build-image names it."""
    path = tmp_path / "tributary-gateway-x86-0.1.0.img.zst"
    disk = made(root_folder(tmp_path, "x86", Role.GATEWAY), "x86")
    subprocess.run(["zstd", "-q", "-1", "-o", path, disk], check=True)
    return path


def test_a_packed_image_is_looked_at_by_its_name(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(image)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "fine   UEFI: EFI/BOOT/BOOTX64.EFI" in lines
    assert all(line.startswith("fine ") for line in lines)


def test_a_program_gets_what_was_looked_at(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "--role", "router", str(image)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert {"what": "root: the role is router", "wrong": "it is gateway"} in found


def test_a_wrong_checksum_ends_it_before_anything_is_looked_at(image: Path) -> None:
    image.with_name(image.name + ".sha256").write_text(f"{'0' * 64}  {image.name}\n")
    with pytest.raises(CommandError, match="its checksum does not match"):
        main([str(image)])


def test_a_name_that_tells_nothing_needs_both_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "x.img", b"")
    assert "x.img tells neither: give --board and --role" in usage_error(main, [str(tmp_path / "x.img")], capsys)
