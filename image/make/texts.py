"""Files of an image that neither Debian's packages nor Ansible's roles bring: what an image alone needs. Pure."""

from collections.abc import Iterator

from image.make import firmware, menu, slots
from image.make.boards import SUITE
from image.make.layout import Spec
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


def texts(spec: Spec) -> tuple[Text, ...]:
    """All of them."""
    gpt = spec.board.gpt
    return (
        Text("/etc/fstab", "".join(_fstab())),
        Text("/etc/hostname", "tributary\n"),
        Text("/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 tributary\n::1 localhost ip6-localhost ip6-loopback\n"),
        Text("/etc/default/locale", "LANG=C.UTF-8\n"),
        Text("/etc/apt/sources.list.d/debian.sources", "\n".join(_sources())),
        Text("/etc/dpkg/dpkg.cfg.d/50-tributary", _DPKG),
        Text("/usr/lib/tributary/role", f"{spec.role}\n"),
        slots.udev_rules(spec.layout),
        slots.KERNEL_HOOK,
        (menu if gpt else firmware).rauc(spec.compatible),
        *(() if gpt else firmware.texts()),
    )


def _fstab() -> Iterator[str]:
    """Without its boot partition a box boots all the same, with what was applied last, and says what is missing.

    / is the slot that the kernel was told of.
    """
    # Two minutes: a slow card and a first start take half of one until devices are looked at.
    options = "noatime,umask=0077,nofail,x-systemd.device-timeout=120s"
    yield "/dev/root / ext4 noatime,errors=remount-ro 0 1\n"
    yield f"/dev/tributary/boot /boot/firmware vfat {options} 0 2\n"
    yield from slots.fstab()


def _sources() -> Iterator[str]:
    for address, suites in MIRRORS:
        yield f"Types: deb\nURIs: {address}\nSuites: {suites}\nComponents: {COMPONENTS}\nSigned-By: {_KEYRING}\n"
