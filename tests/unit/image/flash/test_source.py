"""Images as they are delivered, whole and damaged; zstd and the others are the real ones."""

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from image.flash import source
from image.flash.source import BLOCK, Contents
from tests.refusals import command_error
from tests.unit.image.flash.made import bmap_of, disk_image, files, gpt, mbr, ranges_without, sealed
from tributary.settings.errors import Exit

BLOCKS = 2000  # more than one chunk
HOLES = (range(3, 10), range(1030, 1900))
IMAGE = disk_image(BLOCKS, holes=HOLES)
MAP = bmap_of(IMAGE, ranges_without(BLOCKS, HOLES))


def content(path: Path) -> tuple[Contents, bytes]:
    """What is to be written, and the image made of it, with zeros where nothing is."""
    with source.opened(path) as image:
        contents = source.check(image, lambda _: None)
        found = bytearray(contents.size)
        for offset, data in source.chunks(image):
            found[offset : offset + len(data)] = data
    return contents, bytes(found)


def refused(path: Path, code: Exit = Exit.NO_INPUT) -> str:
    with command_error(code) as failure:
        content(path)
    return str(failure.value)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("bmap", [MAP, b""])
def test_an_image_arrives_whole(tmp_path: Path, packed: bool, bmap: bytes) -> None:
    contents, found = content(files(tmp_path, IMAGE, packed=packed, bmap=bmap))
    assert found == IMAGE
    assert contents.bytes == (len(IMAGE) - sum(map(len, HOLES)) * BLOCK if bmap else len(IMAGE))
    assert contents.gaps == (tuple((hole.start * BLOCK, hole.stop * BLOCK) for hole in HOLES) if bmap else ())


@pytest.mark.parametrize(("program", "suffix"), [("xz", ".xz"), ("gzip", ".gz"), ("bzip2", ".bz2")])
@pytest.mark.parametrize("bmap", [MAP, b""])
def test_other_ways_of_packing_are_unpacked_too(tmp_path: Path, program: str, suffix: str, bmap: bytes) -> None:
    path = files(tmp_path, IMAGE, packed=False, checksum=False, bmap=bmap)
    subprocess.run([program, "-1", path], check=True)
    packed = path.with_name(path.name + suffix)
    assert content(packed)[1] == IMAGE
    os.truncate(packed, packed.stat().st_size // 2)
    assert f"damaged or cut short: {program} says: " in refused(packed)


@pytest.mark.parametrize(("head", "command"), [(b"PK\x03\x04", "unzip"), (b"7z\xbc\xaf\x27\x1c", "7z x")])
def test_an_archive_is_refused_with_the_command_that_unpacks_it(tmp_path: Path, head: bytes, command: str) -> None:
    (path := tmp_path / "card.img.zip").write_bytes(head + bytes(10**5))
    assert refused(path) == f"{path}: an archive: accepted: the image in it, by {command} card.img.zip"


@pytest.mark.parametrize("name", ["card.img.zst.bmap", "card.img.bmap", "card.bmap"])
def test_a_map_is_found_by_each_of_its_names(tmp_path: Path, name: str) -> None:
    path = files(tmp_path, IMAGE)
    (tmp_path / name).write_bytes(MAP)
    assert content(path)[0].bytes < len(IMAGE)


def test_what_is_no_file_or_not_there_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.img") == f"{tmp_path}/none.img: cannot be read: No such file or directory"
    assert "not a file" in refused(Path(os.devnull))
    refused(tmp_path)


def test_an_image_whose_checksum_differs_or_is_that_of_another_is_refused(tmp_path: Path) -> None:
    path = files(tmp_path, IMAGE)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert "its checksum does not match card.img.zst.sha256: download it again" in refused(path)
    (tmp_path / "card.img.zst.sha256").write_text("0" * 64 + "  other.img\n")
    assert "its checksum does not match" in refused(path)


def test_a_checksum_counts_for_the_file_of_its_name_alone(tmp_path: Path) -> None:
    """Not for the undamaged one of the same download that lies beside it by its old name."""
    old = files(tmp_path, IMAGE)
    new = tmp_path / "attic.img.zst"
    new.write_bytes(old.read_bytes()[:-1] + b"?")
    lines = (tmp_path / "card.img.zst.sha256").read_text()
    beside = tmp_path / "attic.img.zst.sha256"
    beside.write_text(lines)
    assert "attic.img.zst.sha256 has none of it: give it the name" in refused(new)
    digest = hashlib.sha256(new.read_bytes()).hexdigest()
    for own in (f"{digest}  ./attic.img.zst\n", f"{digest} *attic.img.zst\r\n", f"SHA256 (attic.img.zst) = {digest}\n"):
        beside.write_text(f"{'0' * 64}  card.img.zst\n{own}")
        with source.opened(new) as image:
            assert image.checksum
        beside.write_text(f"{lines}{own.replace(digest, '0' * 64)}")
        assert "does not match attic.img.zst.sha256" in refused(new)


@pytest.mark.parametrize("bmap", [MAP, b""])
def test_a_packed_image_that_is_cut_short_or_damaged_is_refused(tmp_path: Path, bmap: bytes) -> None:
    path = files(tmp_path, IMAGE, checksum=False, bmap=bmap)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    assert ("wrong checksum" if bmap else "damaged or cut short") in refused(path)
    os.truncate(path, path.stat().st_size // 2)
    assert "damaged or cut short: zstd says: " in refused(path)


FAT_BOOT_SECTOR = b"\xeb\x3c\x90mkfs.fat".ljust(446, b"\xf6") + bytes(64) + b"\x55\xaa"
SECTORS = (1 << 20) // 512


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        *((data, "it has no partition table") for data in (b"", b"hello", bytes(10**6), FAT_BOOT_SECTOR + bytes(1024))),
        (mbr((0, 0x0C, 8, SECTORS)) + bytes((1 << 20) - 512), "it is cut short"),
        (IMAGE[: len(IMAGE) // 2], "it is cut short"),
        (gpt(SECTORS)[:560] + b"x" + gpt(SECTORS)[561:] + bytes((1 << 20) - 1024), "its partition table is damaged"),
    ],
)
def test_what_is_no_image_of_a_disk_is_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    assert reason in refused(files(tmp_path, data, packed=False))


def test_an_image_that_differs_from_its_map_is_refused(tmp_path: Path) -> None:
    other = bytearray(IMAGE)
    other[1950 * BLOCK] ^= 1
    found = refused(files(tmp_path, bytes(other), bmap=MAP))
    assert f"bytes {1900 * BLOCK} to {2000 * BLOCK}: wrong checksum" in found


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(("change", "reason"), [(-BLOCK, "it ends too early"), (BLOCK, "it goes on after its")])
def test_an_image_of_a_size_unlike_its_map_is_refused(tmp_path: Path, packed: bool, change: int, reason: str) -> None:
    other = (IMAGE + bytes(BLOCK))[: len(IMAGE) + change]
    assert reason in refused(files(tmp_path, other, packed=packed, bmap=MAP))


def changed(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text[:200], "unclosed token"),
        (changed('version="2.0"', 'version="1.3"'), "accepted: version 2.0"),
        (changed("> sha256 <", "> sha512 <"), "checksums of type sha256"),
        (changed("> 0-2 <", "> 1-2 <"), "leave out the first block"),
        (changed("> 10-1029 <", "> 10-2 <"), "not in order"),
        (changed("> 10-1029 <", "> ten <"), "invalid literal"),
    ],
)
def test_a_wrong_map_is_refused_with_what_is_wrong(tmp_path: Path, change: Callable[[str], str], reason: str) -> None:
    own = MAP.index(b"<BmapFileChecksum> ") + len("<BmapFileChecksum> ")
    text = change((MAP[:own] + b"0" * 64 + MAP[own + 64 :]).decode())
    found = refused(files(tmp_path, IMAGE, bmap=sealed(text)))
    assert found.startswith(f"{tmp_path}/card.img.bmap: ")
    assert reason in found


def test_a_damaged_map_is_refused(tmp_path: Path) -> None:
    found = refused(files(tmp_path, IMAGE, bmap=MAP.replace(b"> 10-1029 <", b"> 10-1028 <")))
    assert "its own checksum does not match" in found


def test_an_image_that_is_exchanged_stays_the_one_that_was_opened(tmp_path: Path) -> None:
    path = files(tmp_path, IMAGE)
    with source.opened(path) as image:
        source.check(image, lambda _: None)
        path.unlink()
        path.write_bytes(b"another one")
        assert sum(len(data) for _, data in source.chunks(image)) == len(IMAGE)


def test_without_zstd_its_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = files(tmp_path, IMAGE)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refused(path, Exit.UNAVAILABLE) == "zstd is missing: install zstd"
