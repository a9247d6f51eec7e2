"""Files of an image that neither Debian's packages nor Ansible's roles bring: what an image alone needs. Pure.

They lie in files/ as in the image: those of every board, and those of one. Each is a template (Jinja).
"""

from collections.abc import Iterator
from pathlib import Path

from image.firstboot.actions import PROGRAM, PUBLIC, WriteFile
from image.make import firmware, slots
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


def texts(spec: Spec) -> Iterator[WriteFile]:
    """All of them."""
    known = {"slots": slots, "choice": choice, "mirrors": MIRRORS, "components": COMPONENTS}
    known |= {"program": firmware.PROGRAM, "grubenv": BOOT / grubenv.NAME}
    for folder in (_FILES / "any", _FILES / spec.board.name):
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            mode = PROGRAM if path.stat().st_mode & 0o100 else PUBLIC
            yield WriteFile(f"/{path.relative_to(folder)}", rendered(path, spec=spec, **known), mode)
