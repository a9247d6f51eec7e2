"""Two root partitions on one disk, called A and B: how they start, and what both share. Pure.

What lies in a slot knows nothing of the disk, so that an upgrade may bring it from elsewhere: of all disks in the
machine, udev gives the partitions of the one that the kernel's command line names links in /dev/tributary.
"""

from image.make.layout import Layout
from image.upgrade.choice import folder

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
FIRMWARE = "/usr/lib/tributary/firmware-slots"
KERNEL_HOOK = "/etc/kernel/postinst.d/zz-tributary"


def partition(slot: str) -> str:
    """The slot's link in /dev/tributary."""
    return f"root-{folder(slot)}"


def words(layout: Layout, slot: str) -> str:
    """What the slot's kernel is told: which root, which disk, and to start anew if it fails."""
    root = layout.places[partition(slot)].name
    return f"root={root} ro fsck.repair=yes panic=30 rauc.slot={slot} tributary_disk={layout.disk}"
