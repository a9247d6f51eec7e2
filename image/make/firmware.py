"""A Raspberry Pi with two slots: what its firmware reads, and what keeps that right when Debian has a new kernel. Pure.

Firmware (bootcode.bin, start*.elf, fixup*.dat) and overlays lie on top of the boot partition for both slots; kernel,
initramfs, device trees and the kernel's command line in a folder for each, where config.txt has the firmware look
(https://www.raspberrypi.com/documentation/computers/config_txt.html#os_prefix). image/upgrade/choice.py changes it.
"""

from collections.abc import Iterator

from image.firstboot.actions import WriteFile
from image.make import slots
from image.make.layout import Layout
from image.upgrade.boot_partition import COMMAND_LINE, INITRAMFS, KERNEL
from image.upgrade.choice import BACK, CONFIG, SLOTS, STATES, folder, states

PROGRAM = "/usr/lib/tributary/firmware-slots"

_CONFIG = f"""\
# For the Raspberry Pi's firmware. It belongs to the card: an upgrade changes the line os_prefix, and nothing else.
os_prefix={folder(SLOTS[0])}/
arm_64bit=1
enable_uart=1
upstream_kernel=1
kernel={KERNEL}
initramfs {INITRAMFS}
"""
_RASPI = f"""\
# Read by the hook of raspi-firmware, which writes kernel, config.txt and cmdline.txt to the top of the boot partition.
# On a card with two slots they lie in folders: {PROGRAM} sees to that, and the hook ends here.
exit 0
"""
_HOOK = f"""\
#!/bin/sh
# The firmware starts the kernel in the folder of the slot that runs. Where an image is made, none runs.
grep -q rauc.slot= /proc/cmdline && [ -e /vmlinuz ] || exit 0
exec {PROGRAM} fill >&2
"""
_HOOKS = (*(f"/etc/kernel/{when}.d" for when in ("postinst", "postrm")), "/etc/initramfs/post-update.d")

_MODULES = """\
#!/bin/sh
[ "$1" != prereqs ] || exit 0
. /usr/share/initramfs-tools/hook-functions
# For the boot partition: scripts/init-premount/tributary.
manual_add_modules vfat nls_cp437 nls_ascii
"""
_EARLY = f"""\
#!/bin/sh
# A slot on trial: whatever becomes of this start, the next one is of the slot before, which {BACK} names.
[ "$1" != prereqs ] || exit 0
place=
read -r line </proc/cmdline
for word in $line; do
    case $word in tributary_disk=*) place=/dev/disk/by-partuuid/${{word#*=}}-01 ;; esac
done
[ -n "$place" ] || exit 0
waited=0
while [ ! -e "$place" ] && [ $waited -lt 30 ]; do # a card comes late
    sleep 1
    waited=$((waited + 1))
done
card=/tributary
mkdir -p $card
mount -t vfat -o noatime "$place" $card || exit 0
if [ -e $card/{BACK} ]; then
    cat $card/{BACK} >$card/config.new && sync && mv $card/config.new $card/{CONFIG} && sync
fi
umount $card
"""


def rauc(compatible: str) -> WriteFile:
    """RAUC's settings: a program of ours does what a boot loader's would."""
    return slots.rauc(compatible, "bootloader=custom", f"[handlers]\nbootloader-custom-backend={PROGRAM}\n\n")


def texts() -> Iterator[WriteFile]:
    """Of a slot."""
    yield WriteFile("/etc/default/raspi-firmware", _RASPI)
    for place in _HOOKS:
        # Behind zz-tributary, by the order of their names (run-parts(8)).
        yield WriteFile(f"{place}/zz-tributary-firmware", _HOOK, 0o755)
    yield WriteFile("/etc/initramfs-tools/hooks/tributary", _MODULES, 0o755)
    yield WriteFile("/etc/initramfs-tools/scripts/init-premount/tributary", _EARLY, 0o755)


def card(layout: Layout) -> Iterator[WriteFile]:
    """Of the boot partition, but for the kernel: A starts, and B is empty."""
    top = "/boot/firmware"
    yield WriteFile(f"{top}/{CONFIG}", _CONFIG)
    yield WriteFile(f"{top}/{STATES}", states(SLOTS[0]))
    for slot, _, words in slots.starting(layout):
        yield WriteFile(f"{top}/{folder(slot)}/{COMMAND_LINE}", f"console=tty0 rootwait {words}\n")
