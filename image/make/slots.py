"""Two root partitions on one disk, called A and B: what GRUB and RAUC are told of them, and what both share. Pure.

What lies in a slot knows nothing of the disk, so that an upgrade may bring it from elsewhere: of all disks in the
machine, udev gives the partitions of the one that GRUB names on the kernel's command line links in /dev/tributary.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from image.make.identity import Identity
from image.make.text import Text

RAUC = "var/lib/rauc"
KEPT = (
    *(f"var/lib/tributary/{part}" for part in ("cpe", "gateway", "squid", "throttler")),
    *(RAUC, "var/log/journal"),
)
"""Folders that both slots share: they lie on the data partition, below the same names."""

DATA = "data"
"""Where the data partition is mounted."""

FOLDER = "grub"
"""On the boot partition: GRUB's menu and its variables."""

ENVIRONMENT_BYTES = 1024
"""Of a file that GRUB writes (GNU GRUB Manual 2.12, 15.1.3 Environment block)."""

_TRIES = 3
"""Starts that a slot gets before it has to be found good. More than one: power may go in the middle of one."""

KEYRING = "/etc/rauc/keyring.pem"
UDEV_RULES = Text(
    "/usr/lib/udev/rules.d/65-tributary-slots.rules",
    """\
# Links to the partitions of the disk that this system runs from, by the names in its table. Another disk in the machine
# may have the same names.
SUBSYSTEM!="block", GOTO="tributary_end"
ENV{DEVTYPE}!="partition", GOTO="tributary_end"
ENV{ID_PART_ENTRY_NAME}!="boot|root-a|root-b|data", GOTO="tributary_end"
IMPORT{cmdline}="tributary_disk"
ENV{tributary_disk}!="?*", GOTO="tributary_end"
PROGRAM=="/usr/bin/test $env{ID_PART_TABLE_UUID} = $env{tributary_disk}", SYMLINK+="tributary/$env{ID_PART_ENTRY_NAME}"
LABEL="tributary_end"
""",
)
KERNEL_HOOK = Text(
    "/etc/kernel/postinst.d/zz-tributary",
    """\
#!/bin/sh
# GRUB starts what /vmlinuz and /initrd.img lead to. Debian's kernels see to that themselves, others do not.
exec linux-update-symlinks install "$1" "${2:-/boot/vmlinuz-$1}"
""",
    0o755,
)


@dataclass(frozen=True)
class Slot:
    """``name`` is RAUC's bootname; ``number`` that of its partition, which is called ``partition``."""

    name: str
    number: int
    partition: str


SLOTS = (Slot("A", 3, "root-a"), Slot("B", 4, "root-b"))


def fstab() -> Iterator[str]:
    """Lines for what the slots share; what is not mounted keeps nobody out."""
    options = "noatime,nofail,x-systemd.device-timeout=120s"
    yield f"/dev/tributary/data /{DATA} ext4 {options} 0 2\n"
    for path in KEPT:
        yield f"/{DATA}/{path} /{path} none bind,nofail 0 0\n"


def rauc(compatible: str) -> str:
    """RAUC's system.conf, for bundles that are made for ``compatible``.

    A slot is not made active by RAUC but by tributary-upgrade, when it has what is this box's own. A certificate holds
    if it did when the bundle was signed: a box without the right time, or without an upgrade for years, can have one.
    """
    slots = "\n".join(
        f"[slot.root.{index}]\ndevice=/dev/tributary/{slot.partition}\ntype=ext4\nbootname={slot.name}\n"
        for index, slot in enumerate(SLOTS)
    )
    return f"""\
# For RAUC, which tributary-upgrade(8) calls.
[system]
compatible={compatible}
bootloader=grub
grubenv=/boot/firmware/{FOLDER}/grubenv
bundle-formats=verity
activate-installed=false
data-directory=/{RAUC}

[keyring]
path={KEYRING}
use-bundle-signing-time=true

{slots}"""


def early(identity: Identity) -> str:
    """What GRUB does before it has a file system: it finds the boot partition by its number, on whatever disk it is."""
    volume = f"{identity.volume >> 16:04X}-{identity.volume & 0xFFFF:04X}"
    return f"search.fs_uuid {volume} root\nset prefix=($root)/{FOLDER}\n"


def environment() -> bytes:
    """The file with GRUB's variables: A is first, and good."""
    text = "# GRUB Environment Block\nORDER=A B\nA_OK=1\nA_TRY=0\nB_OK=0\nB_TRY=0\n"
    return text.encode().ljust(ENVIRONMENT_BYTES, b"#")


def menu(identity: Identity) -> str:
    """GRUB's menu. It belongs to the disk, and stays as it is when a slot is written anew.

    ORDER, and of each slot OK and TRY, are RAUC's (src/bootloaders/grub.c there). GRUB counts in TRY how often a slot
    was started since it was last found good. /vmlinuz and /initrd.img in each slot lead to its newest kernel
    (linux-update-symlinks(1) of Debian).
    """
    choices = "\n".join(_choice(slot) for slot in SLOTS)
    entries = "\n".join(_entry(slot, identity) for slot in SLOTS)
    return f"""\
# Of the disk. It starts the first slot of ORDER that is good and was not started in vain {_TRIES} times.
set timeout=3
load_env
regexp --set=1:disk "^([^,]+)," "$root"
set chosen=
for slot in $ORDER; do
{choices}
done
if [ -z "$chosen" ]; then
    # None is left: from the beginning again, since a box that starts is better than one that does not.
    for slot in $ORDER; do
        if [ -z "$chosen" ]; then set chosen=$slot; fi
    done
    set A_TRY=0
    set B_TRY=0
fi
save_env A_TRY B_TRY
set default=$chosen

{entries}"""


def _choice(slot: Slot) -> str:
    name = f"{slot.name}_TRY"
    counted = "\n".join(
        f'        {"el" if done else ""}if [ "${name}" = "{done}" ]; then set {name}={done + 1}'
        for done in range(_TRIES)
    )
    return f"""\
    if [ "$slot" = "{slot.name}" -a -z "$chosen" -a "${slot.name}_OK" = "1" -a "${slot.name}_TRY" != "{_TRIES}" ]; then
        set chosen={slot.name}
{counted}
        fi
    fi"""


def _entry(slot: Slot, identity: Identity) -> str:
    root = {"A": identity.root, "B": identity.other_root}[slot.name]
    words = f"ro fsck.repair=yes quiet panic=30 rauc.slot={slot.name} tributary_disk={identity.disk}"
    return f"""\
menuentry "Tributary (slot {slot.name})" --id {slot.name} {{
    set root=$disk,gpt{slot.number}
    linux /vmlinuz root=PARTUUID={root} {words}
    initrd /initrd.img
}}
"""
