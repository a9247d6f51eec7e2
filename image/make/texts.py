"""Files of an image that neither Debian's packages nor Ansible's roles bring: what an image alone needs. Pure."""

from image.firstboot.actions import WriteFile
from image.make import firmware, grub, slots
from image.make.boards import SUITE
from image.make.layout import Spec

MIRRORS = (
    ("http://deb.debian.org/debian", f"{SUITE} {SUITE}-updates"),
    ("http://deb.debian.org/debian-security", f"{SUITE}-security"),
)
COMPONENTS = "main non-free-firmware"
_SOURCE = f"""\
Types: deb
URIs: {{}}
Suites: {{}}
Components: {COMPONENTS}
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""

# / is the slot that the kernel was told of. Without its boot partition a box boots all the same, with what was applied
# last, and says what is missing; two minutes, since a slow card and a first start take half of one until devices are
# looked at.
_FSTAB = """\
/dev/root / ext4 noatime,errors=remount-ro 0 1
/dev/tributary/boot /boot/firmware vfat noatime,umask=0077,nofail,x-systemd.device-timeout=120s 0 2
"""

_DPKG = """\
# Translations of programs, which nobody reads here. What is in UTF-8 can still be shown.
path-exclude=/usr/share/locale/*
path-include=/usr/share/locale/locale.alias
"""


def texts(spec: Spec) -> tuple[WriteFile, ...]:
    """All of them."""
    gpt = spec.board.gpt
    sources = (_SOURCE.format(address, suites) for address, suites in MIRRORS)
    return (
        WriteFile("/etc/fstab", "".join((_FSTAB, *slots.fstab()))),
        WriteFile("/etc/hostname", "tributary\n"),
        WriteFile("/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 tributary\n::1 localhost ip6-localhost ip6-loopback\n"),
        WriteFile("/etc/default/locale", "LANG=C.UTF-8\n"),
        WriteFile("/etc/apt/sources.list.d/debian.sources", "\n".join(sources)),
        WriteFile("/etc/dpkg/dpkg.cfg.d/50-tributary", _DPKG),
        WriteFile("/usr/lib/tributary/role", f"{spec.role}\n"),
        slots.udev_rules(spec.layout),
        slots.KERNEL_HOOK,
        (grub if gpt else firmware).rauc(spec.compatible),
        *(() if gpt else firmware.texts()),
    )
