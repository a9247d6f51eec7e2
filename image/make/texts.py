"""Files of an image that neither Debian's packages nor Ansible's roles bring: what an image alone needs. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from image.make.boards import SUITE, Board, Role
from image.make.layout import Layout

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
_GRUB = """\
# For update-grub(8), which a new kernel runs.
GRUB_DEFAULT=0
GRUB_TIMEOUT=3
GRUB_DISTRIBUTOR="Tributary"
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX="fsck.repair=yes"
GRUB_TERMINAL=console
GRUB_DISABLE_OS_PROBER=true
# The root file system by its partition's number: the first boot finds the disk that it has to fill by it.
GRUB_DISABLE_LINUX_UUID=true
GRUB_DISABLE_LINUX_PARTUUID=false
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


@dataclass(frozen=True)
class Text:
    """A file of the image: its absolute path and what is in it."""

    path: str
    content: str


def texts(board: Board, role: Role, layout: Layout) -> tuple[Text, ...]:
    """All of them, for the disk of ``layout``."""
    return (
        Text("/etc/fstab", _fstab(layout)),
        Text("/etc/hostname", "tributary\n"),
        Text("/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 tributary\n::1 localhost ip6-localhost ip6-loopback\n"),
        Text("/etc/default/locale", "LANG=C.UTF-8\n"),
        Text("/etc/apt/sources.list.d/debian.sources", "\n".join(_sources())),
        Text("/etc/dpkg/dpkg.cfg.d/50-tributary", _DPKG),
        Text("/usr/lib/tributary/role", f"{role}\n"),
        *_boot(board, layout),
    )


def _fstab(layout: Layout) -> str:
    """Without its boot partition a box boots all the same, with what was applied last, and says what is missing."""
    # Two minutes: a slow card and a first start take half of one until devices are looked at.
    options = "noatime,umask=0077,nofail,x-systemd.device-timeout=120s"
    return (
        f"{layout.root.name} / ext4 noatime,errors=remount-ro 0 1\n"
        f"{layout.boot.name} /boot/firmware vfat {options} 0 2\n"
    )


def _sources() -> Iterator[str]:
    for address, suites in MIRRORS:
        yield f"Types: deb\nURIs: {address}\nSuites: {suites}\nComponents: {COMPONENTS}\nSigned-By: {_KEYRING}\n"


def _boot(board: Board, layout: Layout) -> tuple[Text, ...]:
    if board.gpt:
        return (Text("/etc/default/grub", _GRUB),)
    return (
        Text("/etc/default/raspi-firmware", _RASPI.format(root=layout.root.name)),
        Text("/etc/default/raspi-extra-cmdline", _RASPI_COMMAND_LINE),
    )


def menu(kernel: str, layout: Layout) -> str:
    """The first grub.cfg; ``kernel`` is the version in the kernel's file name."""
    return f"""\
# Of the image. update-grub(8) writes this file anew with the next kernel.
set timeout=3
set default=0

menuentry "Tributary" {{
    linux /boot/vmlinuz-{kernel} root={layout.root.name} ro fsck.repair=yes quiet
    initrd /boot/initrd.img-{kernel}
}}
"""


def early(filesystem: object) -> str:
    """What GRUB does before it has a file system: it finds the root by its number, on whatever disk that is."""
    return f"search.fs_uuid {filesystem} root\nset prefix=($root)/boot/grub\n"
