"""The boot partition of a Raspberry Pi: what upgrades write there, and what the initramfs does before them."""

import re
import subprocess
from pathlib import Path

import pytest

from image.make.boards import Role
from image.make.texts import texts
from image.upgrade.boot_partition import BootPartition, fill
from image.upgrade.choice import Choice
from image.upgrade.firmware import main, running
from tests.refusals import usage_error
from tests.unit.image.miniature import files, put, root_folder, spec
from tributary.settings.errors import CommandError

LAYOUT = spec("rpi").layout
DISK = LAYOUT.disk


@pytest.fixture
def boot(tmp_path: Path) -> BootPartition:
    for text in texts(spec("rpi"), "rpi-disk"):
        put(tmp_path / "card", text.path, text.text)
    return BootPartition(tmp_path / "card/boot/firmware")


def early(boot: BootPartition, folder: Path) -> None:
    """The script of the initramfs, with the boot partition as a folder and nothing to be mounted."""
    script = files("rpi")["/etc/initramfs-tools/scripts/init-premount/tributary"]
    (folder / "cmdline").write_text(f"console=tty0 root=PARTUUID={DISK}-03 tributary_disk={DISK}\n")
    (folder / f"{DISK}-01").touch()
    for old, new in (
        ("/proc/cmdline", folder / "cmdline"),
        ("/dev/disk/by-partuuid", folder),
        ("/tributary", boot.place),
    ):
        script = re.sub(rf"(?<![\w-]){re.escape(old)}(?![\w])", str(new), script)
    given = "mount() { :; }\numount() { :; }\n"
    subprocess.run(["sh", "-c", given + script, "tributary"], check=True)


def test_a_new_card_starts_its_first_slot(boot: BootPartition) -> None:
    assert boot.read() == Choice("A", None, frozenset("A"))
    lines = [(boot.place / f"{slot}/cmdline.txt").read_text() for slot in "ab"]
    assert [line.count("\n") for line in lines] == [1, 1]
    assert (f"root=PARTUUID={DISK}-02 " in lines[0], f"root=PARTUUID={DISK}-03 " in lines[1]) == (True, True)


def test_a_trial_ends_before_the_system_that_is_tried_begins(boot: BootPartition, tmp_path: Path) -> None:
    given = (boot.place / "config.txt").read_text()
    boot.write(boot.read().prefer("B", "A"))
    assert boot.read() == Choice("B", "A", frozenset("AB"))
    assert (boot.place / "back.txt").read_text() == given
    early(boot, tmp_path)
    assert boot.read().first == "A"
    assert (boot.place / "config.txt").read_text() == given
    boot.write(boot.read().judge("B", "B", good=True))
    assert boot.read() == Choice("B", None, frozenset("AB"))
    early(boot, tmp_path)
    assert boot.read().first == "B"


def test_lines_of_ones_own_stay_through_upgrades(boot: BootPartition) -> None:
    config = boot.place / "config.txt"
    config.write_text(config.read_text() + "[pi4]\narm_boost=1\n")
    boot.write(boot.read().prefer("B", "A"))
    boot.write(boot.read().judge("B", "B", good=True))
    assert config.read_text().endswith("[pi4]\narm_boost=1\n")


def test_what_cannot_be_read_is_named(boot: BootPartition) -> None:
    (boot.place / "slots.txt").unlink()
    with pytest.raises(CommandError, match=r"slots\.txt: cannot be read"):
        boot.read()


def test_a_slots_folder_gets_the_newest_kernel_and_its_device_trees(tmp_path: Path) -> None:
    root = root_folder(tmp_path, "rpi", Role.ROUTER)
    folder = root / "boot/firmware/a"
    there = {path.name for path in folder.iterdir()}
    assert {"vmlinuz", "initrd.img", "cmdline.txt", "bcm2711-rpi-4-b.dtb", "bcm2837-rpi-3-b.dtb"} <= there
    assert (folder / "bcm2710-rpi-3-b.dtb").read_bytes() == (folder / "bcm2837-rpi-3-b.dtb").read_bytes()
    put(root, "boot/vmlinuz-6.13", b"newer")
    put(root, "boot/initrd.img-6.13", b"newer")
    put(root, "usr/lib/linux-image-6.13/broadcom/bcm2711-rpi-4-b.dtb", b"newer")
    put(root, "boot/firmware/a/vmlinuz.new", b"left by a power cut")
    for name in ("vmlinuz", "initrd.img"):
        (root / name).unlink()
        (root / name).symlink_to(f"boot/{name}-6.13")
    fill(root, folder)
    assert {path.name for path in folder.iterdir()} == {"vmlinuz", "initrd.img", "cmdline.txt", "bcm2711-rpi-4-b.dtb"}
    assert (folder / "vmlinuz").read_bytes() == (folder / "bcm2711-rpi-4-b.dtb").read_bytes() == b"newer"


def test_a_folder_that_is_right_is_not_written(tmp_path: Path) -> None:
    root = root_folder(tmp_path, "rpi", Role.ROUTER)
    before = {path: path.stat().st_ino for path in (root / "boot/firmware/a").iterdir()}
    fill(root, root / "boot/firmware/a")
    assert {path: path.stat().st_ino for path in (root / "boot/firmware/a").iterdir()} == before


@pytest.mark.parametrize(("gone", "words"), [
    ("vmlinuz", "vmlinuz: not there"),
    ("boot/initrd.img-6.12", "initrd.img-6.12: No such file"),
    ("boot/firmware/a/cmdline.txt", ""),
])  # fmt: skip
def test_a_system_without_a_kernel_leaves_the_folder_as_it_was(tmp_path: Path, gone: str, words: str) -> None:
    root = root_folder(tmp_path, "rpi", Role.ROUTER)
    (root / gone).unlink()
    put(root, "boot/firmware/a/vmlinuz", b"as it was")
    if not words:
        fill(root, root / "boot/firmware/a")
        return
    with pytest.raises(CommandError, match=words):
        fill(root, root / "boot/firmware/a")
    assert (root / "boot/firmware/a/vmlinuz").read_bytes() == b"as it was"


def test_the_slot_that_runs_is_the_one_that_the_kernel_was_told_of() -> None:
    assert running("console=tty0 rauc.slot=B tributary_disk=0") == "B"
    with pytest.raises(CommandError, match="not started from one of two slots"):
        running("root=/dev/sda1")


@pytest.mark.parametrize("words", [["get-state", "C"], ["set-state", "A"], ["set-state", "A", "fair"], []])
def test_what_rauc_never_says_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert usage_error(main, words, capsys)
