"""Files of an image that neither Debian's packages nor Ansible's roles bring: what an image alone needs. Pure."""

from collections.abc import Iterator

from image.make import slots
from image.make.boards import SUITE, Board, Role
from image.make.layout import Layout
from image.make.text import Text

MIRRORS = (
    ("http://deb.debian.org/debian", f"{SUITE} {SUITE}-updates"),
    ("http://deb.debian.org/debian-security", f"{SUITE}-security"),
)
COMPONENTS = "main non-free-firmware"
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

_DPKG = """\
# Translations of programs, which nobody reads here. What is in UTF-8 can still be shown.
path-exclude=/usr/share/locale/*
path-include=/usr/share/locale/locale.alias
"""
_RASPI = """\
# For the hook of raspi-firmware, which writes config.txt and cmdline.txt anew with every kernel and initramfs.
ROOTPART={root}
# A size would keep a Raspberry Pi 4 from booting; other models have one of their own without it.
CMA=0
CONSOLES="tty0"
"""
# The hook says net.ifnames=0, and of two values systemd takes the last: eth0 and eth1 would change places.
_RASPI_COMMAND_LINE = "net.ifnames=1\n"


def texts(board: Board, role: Role, layout: Layout) -> tuple[Text, ...]:
    """All of them, for the disk of ``layout``."""
    return (
        Text("/etc/fstab", _fstab(board, layout)),
        Text("/etc/hostname", "tributary\n"),
        Text("/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 tributary\n::1 localhost ip6-localhost ip6-loopback\n"),
        Text("/etc/default/locale", "LANG=C.UTF-8\n"),
        Text("/etc/apt/sources.list.d/debian.sources", "\n".join(_sources())),
        Text("/etc/dpkg/dpkg.cfg.d/50-tributary", _DPKG),
        Text("/usr/lib/tributary/role", f"{role}\n"),
        *(_of_slots(board, role) if board.slot_bytes else _of_firmware(layout)),
    )


def _fstab(board: Board, layout: Layout) -> str:
    """Without its boot partition a box boots all the same, with what was applied last, and says what is missing.

    Where there are two slots, / is the one that the kernel was told of.
    """
    root, boot = ("/dev/root", "/dev/tributary/boot") if board.slot_bytes else (layout.root.name, layout.boot.name)
    # Two minutes: a slow card and a first start take half of one until devices are looked at.
    options = "noatime,umask=0077,nofail,x-systemd.device-timeout=120s"
    lines = (f"{root} / ext4 noatime,errors=remount-ro 0 1\n", f"{boot} /boot/firmware vfat {options} 0 2\n")
    return "".join((*lines, *(slots.fstab() if board.slot_bytes else ())))


def _sources() -> Iterator[str]:
    for address, suites in MIRRORS:
        yield f"Types: deb\nURIs: {address}\nSuites: {suites}\nComponents: {COMPONENTS}\nSigned-By: {_KEYRING}\n"


def compatible(board: Board, role: Role) -> str:
    """For which images an upgrade is made, as RAUC compares it."""
    return f"tributary-{role}-{board.name}"


def _of_slots(board: Board, role: Role) -> tuple[Text, ...]:
    return (
        Text("/etc/rauc/system.conf", slots.rauc(compatible(board, role))),
        slots.UDEV_RULES,
        slots.KERNEL_HOOK,
    )


def _of_firmware(layout: Layout) -> tuple[Text, ...]:
    return (
        Text("/etc/default/raspi-firmware", _RASPI.format(root=layout.root.name)),
        Text("/etc/default/raspi-extra-cmdline", _RASPI_COMMAND_LINE),
    )
