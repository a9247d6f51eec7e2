"""A Raspberry Pi with two slots: what its firmware reads. Pure.

Firmware (bootcode.bin, start*.elf, fixup*.dat) and overlays lie on top of the boot partition for both slots; kernel,
initramfs, device trees and the kernel's command line in a folder for each, where config.txt has the firmware look
(https://www.raspberrypi.com/documentation/computers/config_txt.html#os_prefix). image/upgrade/choice.py changes it.
What is in files/rpi keeps that right when Debian has a new kernel.
"""

from collections.abc import Iterator

from image.firstboot.actions import WriteFile
from image.make import slots
from image.make.layout import Layout
from image.upgrade.boot_partition import COMMAND_LINE, INITRAMFS, KERNEL
from image.upgrade.choice import CONFIG, SLOTS, STATES, folder, states

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


def card(layout: Layout) -> Iterator[WriteFile]:
    """Of the boot partition, but for the kernel: A starts, and B is empty."""
    top = "/boot/firmware"
    yield WriteFile(f"{top}/{CONFIG}", _CONFIG)
    yield WriteFile(f"{top}/{STATES}", states(SLOTS[0]))
    for slot, _, words in slots.starting(layout):
        yield WriteFile(f"{top}/{folder(slot)}/{COMMAND_LINE}", f"console=tty0 rootwait {words}\n")
