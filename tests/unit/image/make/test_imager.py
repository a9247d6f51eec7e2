"""The list for Raspberry Pi Imager has what its schema asks for, and what Imager 2 goes by."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from image.make import imager, order
from image.make.boards import BOARDS, Role
from image.make.order import Making, Order
from image.make.pack import Packed
from tests.unit.debs import sample

# `required` of os-list-schema.json and what its descriptions, and Imager's code, ask of the values.
REQUIRED: dict[str, type] = {
    **dict.fromkeys(("name", "description", "icon", "url", "extract_sha256", "release_date"), str),
    **dict.fromkeys(("extract_size", "image_download_size"), int),
    "devices": list,
}
OPTIONAL: dict[str, type] = dict.fromkeys(("image_download_sha256", "bmap_url", "init_format", "architecture"), str)
OF_A_DEVICE: dict[str, type] = {
    **dict.fromkeys(("name", "description", "matching_type", "architecture"), str),
    "tags": list,
}

PACKED = Packed(disk_bytes=1 << 30, disk_sha256="ab" * 32, bytes=1 << 28, sha256="cd" * 32)


def making(tmp_path: Path, board: str = "rpi", url: str | None = None, role: Role = Role.GATEWAY) -> Making:
    return Making(Order(BOARDS[board], role, tmp_path / "out", tmp_path / "cache", url), sample.release(), "digest")


def delivered(made: Making) -> dict[str, Any]:
    """What a build leaves, after its last stage gave ``PACKED``."""
    folder = made.files.place(made.order.cache)
    folder.mkdir(parents=True)
    for name in made.names:
        (folder / name).touch()
    listing = imager.listing(made.name, made.order.role, made.version, made.release.date, PACKED)
    (folder / f"{made.name}{imager.ENDING}").write_text(json.dumps(listing))
    first, *_ = order.deliver(made)
    found: dict[str, Any] = json.loads(first.read_text())
    return found


def check(values: dict[str, Any], types: dict[str, type]) -> None:
    assert values.keys() == types.keys()
    assert all(type(values[name]) is kind for name, kind in types.items())


@pytest.mark.parametrize("role", Role)
def test_an_entry_has_what_the_schema_requires(tmp_path: Path, role: Role) -> None:
    listing = delivered(making(tmp_path, url="https://images.example.net", role=role))
    assert listing.keys() == {"imager", "os_list"}
    (entry,) = listing["os_list"]
    check(entry, REQUIRED | OPTIONAL)
    assert all(entry.values())
    # Imager's own dialogue for users and networks is off.
    assert (entry["init_format"], entry["architecture"]) == ("none", "armv8")
    assert date.fromisoformat(entry["release_date"]) == sample.release().date.date()
    # Of the disk, and of what it was packed to.
    assert (entry["extract_size"], entry["extract_sha256"]) == (1 << 30, "ab" * 32)
    assert (entry["image_download_size"], entry["image_download_sha256"]) == (1 << 28, "cd" * 32)


def test_imager_offers_models_and_the_image_for_each_of_them(tmp_path: Path) -> None:
    listing = delivered(making(tmp_path))
    assert listing["imager"]["devices"]
    for device in listing["imager"]["devices"]:
        check(device, OF_A_DEVICE)
        assert set(device["tags"]) & set(listing["os_list"][0]["devices"])
    assert "pi5" not in json.dumps(listing), "it has no network there"


@pytest.mark.parametrize("url", ["https://images.example.net/pi", "https://images.example.net/pi/"])
def test_links_are_below_the_address_and_a_plus_is_escaped(tmp_path: Path, url: str) -> None:
    (entry,) = delivered(making(tmp_path, url=url))["os_list"]
    image = "https://images.example.net/pi/tributary-gateway-rpi-0.1.0%2Bgit20261121.170133.abc1234"
    assert (entry["url"], entry["bmap_url"]) == (f"{image}.img.zst", f"{image}.img.bmap")


def test_without_an_address_links_are_the_files_themselves_and_another_one_packs_nothing_anew(tmp_path: Path) -> None:
    made = making(tmp_path)
    (entry,) = delivered(made)["os_list"]
    assert entry["url"] == (tmp_path / "out" / f"{made.name}.img.zst").as_uri()
    one, other = making(tmp_path), making(tmp_path, url="https://images.example.net")
    assert [stage.key for stage in one.stages] == [stage.key for stage in other.stages]


def test_images_for_pcs_have_no_list(tmp_path: Path) -> None:
    assert not [name for name in making(tmp_path, "x86").names if name.endswith(".json")]
