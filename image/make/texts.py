"""Files of an image that no package brings. Pure.

They lie in files/ as in the image: those of every board, those of one, and those of a disk, which are on its boot
partition and stay as they are when a slot is written anew. Each is a template (Jinja); links lead to those that
gateways get from the playbook's role hardening.
"""

from collections.abc import Iterator
from pathlib import Path

from image.firstboot.actions import PROGRAM, PUBLIC, WriteFile
from image.make import slots
from image.make.boards import SUITE
from image.make.layout import Spec
from image.upgrade import choice, grubenv
from image.upgrade.boot_partition import BOOT
from tributary.settings.templates import rendered

MIRRORS = (
    ("http://deb.debian.org/debian", f"{SUITE} {SUITE}-updates"),
    ("http://deb.debian.org/debian-security", f"{SUITE}-security"),
)
COMPONENTS = "main non-free-firmware"
_FILES = Path(__file__).parent / "files"
_HARDENING = {"hardening_reboot": False, "hardening_reboot_time": "04:30", "hardening_mail": ""}
"""The role's own defaults."""


def texts(spec: Spec, *names: str) -> Iterator[WriteFile]:
    """Those in the folders ``names``; with those of a disk slot A starts, and B is empty."""
    known = {"slots": slots, "choice": choice, "mirrors": MIRRORS, "components": COMPONENTS}
    known |= {"spec": spec, "grubenv": BOOT / grubenv.NAME, **_HARDENING}
    for folder in (_FILES / name for name in names):
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            text = rendered(path, **known)
            # Not by the file's own bits, which a checkout may have lost: without them no hook would run.
            yield WriteFile(f"/{path.relative_to(folder)}", text, PROGRAM if text.startswith("#!") else PUBLIC)
