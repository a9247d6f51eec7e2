"""Two root partitions on one disk, called A and B: what RAUC is told of them, and what both share. Pure.

What lies in a slot knows nothing of the disk, so that an upgrade may bring it from elsewhere: of all disks in the
machine, udev gives the partitions of the one that the kernel's command line names links in /dev/tributary.
"""

from collections.abc import Iterator

from image.firstboot.actions import WriteFile
from image.make.layout import Layout, Partition
from image.upgrade.choice import SLOTS, folder

RAUC = "var/lib/rauc"
KEPT = (
    *(f"var/lib/tributary/{part}" for part in ("router", "gateway", "squid", "throttler")),
    # Where systemd puts the state of a service with a user of its own.
    *("var/lib/private/tributary-console", RAUC, "var/log/journal"),
)
"""Folders that both slots share: they lie on the data partition, below the same names."""

DATA = "data"
"""Where the data partition is mounted."""

KEYRING = "/etc/rauc/keyring.pem"
KERNEL_HOOK = WriteFile(
    "/etc/kernel/postinst.d/zz-tributary",
    """\
#!/bin/sh
# What starts is what /vmlinuz and /initrd.img lead to. Debian's kernels see to that themselves, others do not.
exec linux-update-symlinks install "$1" "${2:-/boot/vmlinuz-$1}"
""",
    0o755,
)


def partition(slot: str) -> str:
    """The slot's link in /dev/tributary."""
    return f"root-{folder(slot)}"


def starting(layout: Layout) -> Iterator[tuple[str, Partition, str]]:
    """Each slot, where it lies, and what its kernel is told: which root, which disk, and to start anew if it fails."""
    for slot in SLOTS:
        place = layout.places[partition(slot)]
        disk = f"rauc.slot={slot} tributary_disk={layout.disk}"
        yield slot, place, f"root={place.name} ro fsck.repair=yes panic=30 {disk}"


def udev_rules(layout: Layout) -> WriteFile:
    """Partitions go by their numbers, which a table of either kind has; all disks of a board have them alike."""
    links = "".join(
        f'ENV{{ID_PART_ENTRY_NUMBER}}=="{number}", SYMLINK+="tributary/{link}"\n'
        for number, link in enumerate(layout.places, start=1)
        if link != "bios"
    )
    return WriteFile(
        "/usr/lib/udev/rules.d/65-tributary-slots.rules",
        f"""\
# Links to the partitions of the disk that this system runs from. Another disk in the machine may look the same.
SUBSYSTEM!="block", GOTO="tributary_end"
ENV{{DEVTYPE}}!="partition", GOTO="tributary_end"
IMPORT{{cmdline}}="tributary_disk"
ENV{{tributary_disk}}!="?*", GOTO="tributary_end"
PROGRAM!="/usr/bin/test $env{{ID_PART_TABLE_UUID}} = $env{{tributary_disk}}", GOTO="tributary_end"
{links}LABEL="tributary_end"
""",
    )


def fstab() -> Iterator[str]:
    """Lines for what the slots share; what is not mounted keeps nobody out."""
    options = "noatime,nofail,x-systemd.device-timeout=120s"
    yield f"/dev/tributary/data /{DATA} ext4 {options} 0 2\n"
    for path in KEPT:
        yield f"/{DATA}/{path} /{path} none bind,nofail 0 0\n"


def rauc(compatible: str, loader: str, handlers: str = "") -> WriteFile:
    """RAUC's system.conf, for bundles that are made for ``compatible``; ``loader`` and ``handlers`` are the board's.

    A slot is not made active by RAUC but by tributary-upgrade, when it has what is this box's own. A certificate holds
    if it did when the bundle was signed: a box without the right time, or without an upgrade for years, can have one.
    """
    slots = "\n".join(
        f"[slot.root.{index}]\ndevice=/dev/tributary/{partition(slot)}\ntype=ext4\nbootname={slot}\n"
        for index, slot in enumerate(SLOTS)
    )
    return WriteFile(
        "/etc/rauc/system.conf",
        f"""\
# For RAUC, which tributary-upgrade(8) calls.
[system]
compatible={compatible}
{loader}
bundle-formats=verity
activate-installed=false
data-directory=/{RAUC}

[keyring]
path={KEYRING}
use-bundle-signing-time=true

{handlers}{slots}""",
    )
