"""A root of some kilobytes that has all that an image's one must have, and the disk that comes of it: no Debian in it.

Kernel, initramfs, boot loader and device trees are the beginnings by which they are told.
"""

import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from image.check.on_rpi import MODELS
from image.make import disk
from image.make.boards import BOARDS, MIB, Board, Role
from image.make.command import Runner
from image.make.layout import Spec
from image.make.texts import texts
from image.progress import Progress
from image.upgrade import grubenv
from image.upgrade.boot_partition import fill
from tributary.paths import ROOT

NAME = "tributary-miniature-0.1.0"
SECONDS = 1_795_280_493
BOTH = pytest.mark.parametrize("board", BOARDS.values(), ids=lambda board: board.name)
TOOLS = ("sfdisk", "bmaptool", "fdtget", "mkfs.vfat", "mcopy", "mkfs.ext4", "debugfs", "dumpe2fs")

needs_tools = pytest.mark.skipif(
    not all(shutil.which(tool) for tool in TOOLS),
    reason=f"needs {', '.join(tool for tool in TOOLS if not shutil.which(tool))}",
)


def spec(board: str | Board, role: Role = Role.GATEWAY) -> Spec:
    """An image for the ``board`` as it is."""
    return Spec(BOARDS[board] if isinstance(board, str) else board, role, NAME, SECONDS)


def files(board: str | Board, role: Role = Role.GATEWAY) -> dict[str, str]:
    """Those that it has by itself, by their paths."""
    made = spec(board, role)
    return {text.path: text.text for text in texts(made, "any", made.board.name)}


def small(board: str, role: Role = Role.GATEWAY) -> Spec:
    """With partitions that are made fast; 40 MiB is about the least that can be FAT32."""
    return spec(replace(BOARDS[board], boot_bytes=40 * MIB, slot_bytes=24 * MIB), role)


def device_tree(model: str, compatible: str) -> bytes:
    """A tree of one node (Devicetree Specification 0.4, chapter 5)."""
    strings = b"model\0compatible\0"
    body = struct.pack(">I4x", 1)
    for name, value in ((0, model), (6, compatible)):
        raw = value.encode() + b"\0"
        body += struct.pack(">III", 3, len(raw), name) + raw + bytes(-len(raw) % 4)
    body += struct.pack(">II", 2, 9)
    size = 40 + len(body) + len(strings)
    return (
        struct.pack(">10I", 0xD00DFEED, size, 40, 40 + len(body), 40, 17, 16, 0, len(strings), len(body))
        + body
        + strings
    )


def kernel(board: str) -> bytes:
    return bytes(0x202) + b"HdrS" + bytes(600) if board == "x86" else bytes(0x38) + b"ARM\x64" + bytes(600)


def core_image() -> bytes:
    """Three sectors, the first of which says that two follow."""
    return bytes(500) + struct.pack("<QHH", 2, 2, 0x820) + b"x" * 1024


def boot_image() -> bytes:
    code = bytearray(512)
    code[0x66:0x68] = b"\xeb\x05"
    code[0] = 0xEB
    return bytes(code)


def root_folder(folder: Path, board: str, role: Role) -> Path:
    """The root, boot partition's files and all, as root.py leaves it."""
    root = folder / "root"
    for text in texts(small(board, role), "any", board, f"{board}-disk"):
        put(root, text.path, text.text)
    for path, content in _system(role).items():
        put(root, path, content)
    for path in ("home/tributary", "root", "var/lib/apt/lists/partial", "run"):
        (root / path).mkdir(parents=True, exist_ok=True)
    (root / "etc/resolv.conf").symlink_to("../run/systemd/resolve/stub-resolv.conf")
    shutil.copy(ROOT / "image/firstboot/tributary.toml", _made(root / "boot/firmware/tributary.toml"))
    put(root, "var/lib/tributary/squid/kept", "shared")
    _put_kernel(root, board)
    (_put_x86 if board == "x86" else _put_rpi)(root)
    return root


def put(root: Path, path: str, content: str | bytes, mode: int = 0o644) -> None:
    target = _made(root / path.lstrip("/"))
    target.write_bytes(content.encode() if isinstance(content, str) else content)
    target.chmod(mode)


def _made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _system(role: Role) -> dict[str, str]:
    in_both = ("router", "converter", "console")
    units = {"gateway": ("squid", "throttler", "gateway", *in_both), "router": in_both}[role]
    wants = "etc/systemd/system/multi-user.target.wants"
    return {
        "etc/passwd": "root:x:0:0::/root:/bin/bash\ntributary:x:1000:1000::/home/tributary:/bin/bash\n",
        "etc/shadow": "root:!:1:0:9:7:::\ndaemon:*:1:0:9:7:::\ntributary:!:1:0:9:7:::\n",
        "etc/machine-id": "",
        "etc/ssh/sshd_config": "",
        "var/lib/dpkg/status": "Package: bash\nStatus: install ok installed\nVersion: 5.2-1\n\n",
        **{
            f"usr/lib/systemd/system/tributary-{unit}.service": ""
            for unit in (*units, "console", "firstboot", "first-start")
        },
        "usr/lib/systemd/system/dnsmasq.service": "",
        **{f"{wants}/tributary-{unit}.service": "" for unit in ("firstboot", "firstboot-report", "mptcp", "low-mark")},
        f"{wants}/systemd-networkd.service": "",
        **{
            f"etc/systemd/system/sysinit.target.wants/{unit}.service": ""
            for unit in ("systemd-resolved", "tributary-firewall")
        },
    }


def _put_kernel(root: Path, board: str) -> None:
    put(root, "boot/vmlinuz-6.12", kernel(board))
    put(root, "boot/initrd.img-6.12", b"070701" + bytes(100))
    (root / "vmlinuz").symlink_to("boot/vmlinuz-6.12")
    (root / "initrd.img").symlink_to("boot/initrd.img-6.12")


def _put_x86(root: Path) -> None:
    put(root, f"boot/firmware/{grubenv.NAME}", grubenv.environment())
    put(root, "boot/grub/core.img", core_image())
    put(root, "boot/grub/boot.img", boot_image())
    put(root, "boot/firmware/EFI/BOOT/BOOTX64.EFI", b"MZ" + bytes(100))


def _put_rpi(root: Path) -> None:
    for path in ("bootcode.bin", "start.elf", "fixup.dat", "start4.elf", "fixup4.dat"):
        put(root, f"boot/firmware/{path}", b"x")
    for tree, compatible in MODELS.values():
        made = device_tree(f"Raspberry Pi ({tree})", compatible)
        put(root, f"usr/lib/linux-image-6.12/broadcom/{tree}", made)
    for path in ("brcmfmac43430-sdio.bin", "brcmfmac43455-sdio.bin"):
        put(root, f"usr/lib/firmware/brcm/{path}", b"x")
    fill(root, root / "boot/firmware/a")


def made(root: Path, board: str) -> Path:
    """The disk of a root folder, which loses its boot partition's files."""
    boot = root.parent / "boot"
    (root / "boot/firmware").rename(boot)
    (root / "boot/firmware").mkdir()
    path = root.parent / "disk.img"
    disk.Disk(small(board), path, Runner(root.parent / "log", Progress())).make(root, boot)
    return path
