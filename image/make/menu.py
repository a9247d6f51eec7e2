"""GRUB's menu and its variables, for a disk with two slots. Pure."""

from image.firstboot.actions import WriteFile
from image.make import slots
from image.make.layout import Layout
from image.upgrade.choice import SLOTS

FOLDER = "grub"
"""On the boot partition: GRUB's menu and its variables."""

ENVIRONMENT_BYTES = 1024
"""Of a file that GRUB writes (GNU GRUB Manual 2.12, 15.1.3 Environment block)."""

_TRIES = 3
"""Starts that a slot gets before it has to be found good. More than one: power may go in the middle of one."""


def rauc(compatible: str) -> WriteFile:
    """RAUC's settings: it writes GRUB's variables by itself."""
    return slots.rauc(compatible, f"bootloader=grub\ngrubenv=/boot/firmware/{FOLDER}/grubenv")


def early(layout: Layout) -> str:
    """What GRUB does before it has a file system: it finds the boot partition by its number, on whatever disk it is."""
    volume = f"{layout.volume >> 16:04X}-{layout.volume & 0xFFFF:04X}"
    return f"search.fs_uuid {volume} root\nset prefix=($root)/{FOLDER}\n"


def environment() -> bytes:
    """The file with GRUB's variables: A is first, and good."""
    text = "# GRUB Environment Block\nORDER=A B\nA_OK=1\nA_TRY=0\nB_OK=0\nB_TRY=0\n"
    return text.encode().ljust(ENVIRONMENT_BYTES, b"#")


def menu(layout: Layout) -> str:
    """GRUB's menu. It belongs to the disk, and stays as it is when a slot is written anew.

    ORDER, and of each slot OK and TRY, are RAUC's (src/bootloaders/grub.c there). GRUB counts in TRY how often a slot
    was started since it was last found good. /vmlinuz and /initrd.img in each slot lead to its newest kernel
    (linux-update-symlinks(1) of Debian).
    """
    choices = "\n".join(_choice(slot) for slot in SLOTS)
    numbers = {link: number for number, link in enumerate(layout.places, start=1)}
    entries = "\n".join(
        _entry(slot, numbers[slots.partition(slot)], words) for slot, _, words in slots.starting(layout)
    )
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


def _choice(slot: str) -> str:
    name = f"{slot}_TRY"
    counted = "\n".join(
        f'        {"el" if done else ""}if [ "${name}" = "{done}" ]; then set {name}={done + 1}'
        for done in range(_TRIES)
    )
    return f"""\
    if [ "$slot" = "{slot}" -a -z "$chosen" -a "${slot}_OK" = "1" -a "${slot}_TRY" != "{_TRIES}" ]; then
        set chosen={slot}
{counted}
        fi
    fi"""


def _entry(slot: str, number: int, words: str) -> str:
    return f"""\
menuentry "Tributary (slot {slot})" --id {slot} {{
    set root=$disk,gpt{number}
    linux /vmlinuz {words} quiet
    initrd /initrd.img
}}
"""
