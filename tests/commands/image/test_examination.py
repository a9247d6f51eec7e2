"""Whole disks in miniature: one that is right, and each way in which one can be wrong."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from image.check.examination import examine
from image.make.boards import Role
from tests.unit.image.miniature import device_tree, made, needs_tools, put, root_folder
from tributary.settings.errors import CommandError

pytestmark = needs_tools
Change = Callable[[Path], None]


def wrong(board: str, role: Role, folder: Path, change: Change = lambda _: None) -> list[str]:
    root = root_folder(folder, board, role)
    change(root)
    return [str(finding) for finding in examine(made(root, board), board, role) if not finding.fine]


@pytest.mark.parametrize("board", ["x86", "rpi"])
@pytest.mark.parametrize("role", list(Role))
def test_an_image_that_is_right_is_found_right(board: str, role: Role, tmp_path: Path) -> None:
    assert wrong(board, role, tmp_path) == []


def without(path: str) -> Change:
    return lambda root: (root / path).unlink()


def with_file(path: str, content: str | bytes = "x") -> Change:
    return lambda root: put(root, path, content)


def with_words(path: str, old: str, new: str) -> Change:
    def change(root: Path) -> None:
        text = (root / path).read_text()
        assert old in text
        (root / path).write_text(text.replace(old, new))

    return change


BOOT = "boot/firmware"
PACKED = gzip.compress(bytes(9000))
ANYWHERE = {
    "SSH host keys": (with_file("etc/ssh/ssh_host_ed25519_key"), "no SSH host keys"),
    "a machine's number": (with_file("etc/machine-id", "0123\n"), "/etc/machine-id is empty: it is 0123"),
    "a password": (with_words("etc/shadow", "root:!", "root:$y$j9T$x"), "no account has a password: open: root"),
    "somebody who may be root": (with_file("etc/sudoers.d/me"), "nobody may be root yet: /etc/sudoers.d has me"),
    "somebody's key": (with_file("home/tributary/.ssh/authorized_keys"), "nobody has a key to it"),
    "the other role": (with_file("usr/lib/tributary/role", "router\n"), "the role is gateway: it is router"),
    "a part missing": (without("usr/lib/systemd/system/tributary-squid.service"), "tributary-squid.service is there"),
    "the first boot off": (
        without("etc/systemd/system/multi-user.target.wants/tributary-firstboot.service"),
        "tributary-firstboot.service is enabled: not enabled",
    ),
    "SSH on before its keys": (
        with_file("etc/systemd/system/multi-user.target.wants/ssh.service"),
        "ssh.service waits for the settings: enabled",
    ),
    "another program for networks": (with_file("usr/sbin/ifup"), "networks are systemd-networkd's: ifup as well"),
    "lists of packages": (with_file("var/lib/apt/lists/some_Packages"), "/var/lib/apt/lists is empty"),
    "no settings": (without(f"{BOOT}/tributary.toml"), "tributary.toml is accepted: it is not there"),
    "settings that are not accepted": (with_file(f"{BOOT}/tributary.toml", "colour = 1\n"), "colour = 1: accepted:"),
    "a boot partition that is not mounted": (with_words("etc/fstab", "umask", "noauto,umask"), "it has noauto"),
    "another root in the table": (with_words("etc/fstab", "/dev/root /", "/dev/sda3 /"), "mounts /: by /dev/sda3"),
}
X86 = {
    "no program for UEFI": (without(f"{BOOT}/EFI/BOOT/BOOTX64.EFI"), "no program for UEFI"),
    "a menu for another root": (with_words(f"{BOOT}/grub/grub.cfg", "PARTUUID=", "PARTUUID=0"), "names partition 3"),
    "no menu": (without(f"{BOOT}/grub/grub.cfg"), "grub.cfg and grub/grubenv: missing"),
    "a slot that was tried": (with_words(f"{BOOT}/grub/grubenv", "A_TRY=0", "A_TRY=1"), "let slot A start"),
    "no kernel": (without("boot/vmlinuz-6.12"), "/vmlinuz leads to boot/vmlinuz-6.12: it is not there"),
    "no link to the kernel": (without("vmlinuz"), "/vmlinuz leads to nothing"),
    "data that only one slot has": (with_words("etc/fstab", "/data/var/lib/rauc", "/var/rauc"), "mounts /var/lib/rauc"),
    "a kernel that is none": (with_file("boot/vmlinuz-6.12", bytes(9000)), "no kernel for x86"),
}
A = f"{BOOT}/a"
RPI = {
    "no firmware for model 4": (without(f"{BOOT}/start4.elf"), "start4.elf: missing"),
    "no device tree for model 400": (without(f"{A}/bcm2711-rpi-400.dtb"), "Pi 400: a/bcm2711-rpi-400.dtb: missing"),
    "a device tree of another model": (
        with_file(f"{A}/bcm2711-rpi-400.dtb", device_tree("Another", "raspberrypi,2-model-b")),
        "bcm2711-rpi-400.dtb: it is for Another",
    ),
    "a device tree cut short": (
        with_file(f"{A}/bcm2711-rpi-400.dtb", device_tree("Another", "raspberrypi,400")[:-9]),
        "cut short",
    ),
    "a line for another root": (with_words(f"{BOOT}/b/cmdline.txt", "-03", "-02"), "b/cmdline.txt: root="),
    "a line for another disk": (with_words(f"{A}/cmdline.txt", "tributary_disk=", "x="), "a/cmdline.txt: tributary_d"),
    "no line for the other slot": (without(f"{BOOT}/b/cmdline.txt"), "upgrades read: no b/cmdline.txt"),
    "memory that a model 4 hangs with": (
        with_words(f"{A}/cmdline.txt", "rootwait", "rootwait cma=64M"),
        "hangs",
    ),
    "names that change places": (with_words(f"{A}/cmdline.txt", "rootwait", "rootwait net.ifnames=0"), "lasting names"),
    "a kernel that is not there": (with_words(f"{BOOT}/config.txt", "vmlinuz", "linux"), "kernel a/linux: it is not"),
    "a kernel of another processor": (with_file(f"{A}/vmlinuz", bytes(9000)), "no kernel for arm64"),
    "a kernel that is cut short": (with_file(f"{A}/vmlinuz", PACKED[:-9]), "damaged: it is packed"),
    "a kernel that is damaged": (with_file(f"{A}/vmlinuz", PACKED[:10] + b"\xff" * 99), "damaged: it is packed"),
    "a processor in its old mode": (with_words(f"{BOOT}/config.txt", "arm_64bit=1\n", ""), "arm_64bit=1: None"),
    "the slot that is empty first": (with_words(f"{BOOT}/config.txt", "=a/", "=b/"), "os_prefix=a/: b/"),
    "a slot on trial": (with_file(f"{BOOT}/back.txt"), "no slot is on trial: back.txt is there"),
    "a slot that may not start": (with_words(f"{BOOT}/slots.txt", "A good", "A bad"), "A is good, B is empty"),
    "no firmware for WiFi": (without("usr/lib/firmware/brcm/brcmfmac43455-sdio.bin"), "no brcmfmac43455-sdio.bin"),
}
ALL = {
    **{f"x86: {name}": ("x86", *case) for name, case in (ANYWHERE | X86).items()},
    **{f"rpi: {name}": ("rpi", *case) for name, case in RPI.items()},
}


@pytest.mark.parametrize("name", ALL)
def test_what_is_wrong_is_named(name: str, tmp_path: Path) -> None:
    board, change, words = ALL[name]
    found = wrong(board, Role.GATEWAY, tmp_path, change)
    assert any(words in line for line in found), found


def test_a_loader_that_is_not_where_the_first_sector_says_is_found(tmp_path: Path) -> None:
    disk = made(root_folder(tmp_path, "x86", Role.GATEWAY), "x86")
    with disk.open("r+b") as file:
        file.seek(0x5C)
        file.write((4096).to_bytes(8, "little"))
    found = [str(finding) for finding in examine(disk, "x86", "gateway") if not finding.fine]
    assert found == [
        "BIOS: the first sector leads to GRUB in its partition: it leads to sector 4096, the partition begins at 2048"
    ]


def test_a_file_without_a_partition_table_cannot_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "x.img").write_bytes(bytes(100_000))
    with pytest.raises(CommandError, match=r"x\.img: it has no partition table"):
        examine(tmp_path / "x.img", "rpi", "gateway")


def test_an_image_for_the_other_board_is_told_by_its_table(tmp_path: Path) -> None:
    disk = made(root_folder(tmp_path, "x86", Role.GATEWAY), "x86")
    found = [str(finding) for finding in examine(disk, "rpi", "gateway") if not finding.fine]
    assert found[0] == "table: MBR: gpt"
