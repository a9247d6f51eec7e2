"""What Raspberry Pi Imager reads of an image: a list of operating systems with one entry, and of models. Pure.

Source: doc/json-schema/os-list-schema.json and src/hwlistmodel.cpp of https://github.com/raspberrypi/rpi-imager, as of
August 2026 (Imager 2). Imager 2 goes no further unless a model was chosen, so the list brings those that the image is
for. Imager shows an image for the models that have one of its ``devices`` among their ``tags``.
"""

from datetime import datetime
from typing import Any
from urllib.parse import quote

from image.make.boards import Role
from image.make.pack import BLOCK_MAP, IMAGE, Packed

ENDING = ".os_list.json"

_TITLES = {
    Role.GATEWAY: ("Tributary gateway", "ends Multipath TCP for clients"),
    Role.ROUTER: ("Tributary home router", "uses all of its links at once, by Multipath TCP"),
}
_ICON = "icons/cat_other_specific_purpose_operating_systems.png"
"""One that Imager itself has, so that none need be published."""


_MODELS = (
    ("Raspberry Pi 4", "4 Model B, 400, Compute Module 4", "pi4-64bit"),
    ("Raspberry Pi 3", "3 Model A+, B and B+", "pi3-64bit"),
    ("Raspberry Pi Zero 2 W", "Zero 2 W", "pi3-64bit"),
)
"""Lines of Imager's menu of models, and what Raspberry Pi's own list calls those with this processor.

Model 5 is left out: Debian 13's kernel has no network on it (docs/install-pi.md).
"""


def listing(image: str, role: Role, version: str, date: datetime, packed: Packed) -> dict[str, Any]:
    """The list of an image; its links are the names of files beside it."""
    name, does = _TITLES[role]
    entry = {
        "name": name,
        "description": f"Version {version}: {does}",
        "icon": _ICON,
        "url": image + IMAGE,
        "bmap_url": image + BLOCK_MAP,
        "extract_size": packed.disk_bytes,
        "extract_sha256": packed.disk_sha256,
        "image_download_size": packed.bytes,
        "image_download_sha256": packed.sha256,
        "release_date": f"{date:%Y-%m-%d}",
        # No dialogue for a user, a host name and Wi-Fi: those are set in tributary.toml on the card.
        "init_format": "none",
        "architecture": "armv8",
        "devices": sorted({tag for _, _, tag in _MODELS}),
    }
    alike = {"matching_type": "exclusive", "architecture": "armv8"}
    models = [{"name": name, "description": text, "tags": [tag], **alike} for name, text, tag in _MODELS]
    return {"imager": {"devices": models}, "os_list": [entry]}


def addressed(listing: dict[str, Any], base: str) -> dict[str, Any]:
    """The list with the address ``base`` before each link: Imager takes whole ones alone.

    A plus in a version is escaped: some web servers read it as a blank.
    """
    links = ("url", "bmap_url")
    entries = [
        entry | {link: f"{base.rstrip('/')}/{quote(entry[link])}" for link in links} for entry in listing["os_list"]
    ]
    return listing | {"os_list": entries}
