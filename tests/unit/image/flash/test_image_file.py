"""Images as they are delivered, whole and damaged; zstd and the others are the real ones."""

import os
import subprocess
from pathlib import Path

import pytest

from image.flash import image_file
from image.flash.bmap import BLOCK, Contents
from tests.unit.image.flash.made import bmap_of, disk_image, files, ranges_without, seal
from tributary.settings.errors import CommandError, Exit

BLOCKS = 2000  # more than one chunk
HOLES = (range(3, 10), range(1030, 1900))
IMAGE = disk_image(BLOCKS, holes=HOLES)
MAP = bmap_of(IMAGE, ranges_without(BLOCKS, HOLES))


def surveyed(path: Path) -> Contents:
    with image_file.opened(path) as image:
        return image_file.survey(image, lambda _: None)


def content(path: Path) -> tuple[Contents, bytes]:
    """What is to be written, and the image made of it, with zeros where nothing is."""
    with image_file.opened(path) as image:
        contents = image_file.survey(image, lambda _: None)
        found = bytearray(contents.size)
        for offset, data in image_file.chunks(image, contents):
            found[offset : offset + len(data)] = data
    return contents, bytes(found)


def refused(path: Path, code: Exit = Exit.NO_INPUT) -> str:
    with pytest.raises(CommandError) as failure:
        content(path)
    assert failure.value.code is code
    return str(failure.value)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("bmap", [MAP, b""])
def test_an_image_arrives_whole(tmp_path: Path, packed: bool, bmap: bytes) -> None:
    contents, found = content(files(tmp_path, IMAGE, packed=packed, bmap=bmap))
    assert found == IMAGE
    assert contents.mapped == (len(IMAGE) - sum(map(len, HOLES)) * BLOCK if bmap else len(IMAGE))


def test_a_packed_image_needs_no_name_that_says_so(tmp_path: Path) -> None:
    path = files(tmp_path, IMAGE, checksum=False).rename(tmp_path / "download")
    assert content(path)[1] == IMAGE


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


def test_progress_goes_through_the_file_twice_when_there_is_a_checksum(tmp_path: Path) -> None:
    seen: list[int] = []
    with image_file.opened(files(tmp_path, IMAGE)) as image:
        image_file.survey(image, seen.append)
        assert seen == sorted(seen)
        assert seen[-1] == image_file.reading(image) == 2 * image.size


@pytest.mark.parametrize("name", ["card.img.zst.bmap", "card.img.bmap", "card.bmap"])
def test_a_map_is_found_by_each_of_its_names(tmp_path: Path, name: str) -> None:
    path = files(tmp_path, IMAGE)
    (tmp_path / name).write_bytes(MAP)
    assert surveyed(path).mapped < len(IMAGE)


def test_a_missing_image_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.img") == f"{tmp_path}/none.img: cannot be read: No such file or directory"


def test_a_folder_is_refused(tmp_path: Path) -> None:
    refused(tmp_path)


def test_what_is_no_file_is_refused() -> None:
    assert "not a file" in refused(Path(os.devnull))


def test_an_image_whose_checksum_differs_is_refused(tmp_path: Path) -> None:
    path = files(tmp_path, IMAGE)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert refused(path).endswith("its checksum does not match: download it again")


def test_a_checksum_file_of_another_image_is_refused(tmp_path: Path) -> None:
    path = files(tmp_path, IMAGE)
    (tmp_path / "card.img.zst.sha256").write_text("0" * 64 + "  other.img\n")
    assert "it has no line for card.img.zst" in refused(path)


def test_a_checksum_of_a_file_read_as_bytes_counts(tmp_path: Path) -> None:
    path = files(tmp_path, IMAGE)
    beside = tmp_path / "card.img.zst.sha256"
    beside.write_text(beside.read_text().replace("  ", " *").upper().replace("CARD.IMG.ZST", "card.img.zst"))
    assert surveyed(path).size == len(IMAGE)


@pytest.mark.parametrize("bmap", [MAP, b""])
def test_a_packed_image_that_is_cut_short_is_refused(tmp_path: Path, bmap: bytes) -> None:
    path = files(tmp_path, IMAGE, checksum=False, bmap=bmap)
    os.truncate(path, path.stat().st_size // 2)
    assert "damaged or cut short: zstd says: Read error" in refused(path)


def test_an_image_that_is_cut_short_is_refused_by_its_partitions(tmp_path: Path) -> None:
    assert "it is cut short" in refused(files(tmp_path, IMAGE[: len(IMAGE) // 2], packed=False))


def test_a_packed_image_with_a_flipped_bit_is_refused(tmp_path: Path) -> None:
    path = files(tmp_path, IMAGE, checksum=False)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    assert "damaged or cut short" in refused(path)


@pytest.mark.parametrize(("data", "packed"), [(b"", False), (b"", True), (b"hello", False), (bytes(10**6), True)])
def test_what_is_no_image_of_a_disk_is_refused(tmp_path: Path, data: bytes, packed: bool) -> None:
    assert "it has no partition table" in refused(files(tmp_path, data, packed=packed))


def test_a_file_that_is_called_packed_and_is_not_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "card.img.zst"
    path.write_bytes(IMAGE)
    assert "zstd says" in refused(path)


def test_an_image_that_differs_from_its_map_is_refused(tmp_path: Path) -> None:
    other = bytearray(IMAGE)
    other[1950 * BLOCK] ^= 1
    found = refused(files(tmp_path, bytes(other), bmap=MAP))
    assert f"bytes {1900 * BLOCK} to {2000 * BLOCK}: wrong checksum" in found


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(("change", "reason"), [(-BLOCK, "it ends too early"), (BLOCK, "it goes on after its")])
def test_an_image_of_another_size_than_its_map_is_refused(
    tmp_path: Path, packed: bool, change: int, reason: str
) -> None:
    other = (IMAGE + bytes(BLOCK))[: len(IMAGE) + change]
    assert reason in refused(files(tmp_path, other, packed=packed, bmap=MAP))


def test_a_damaged_map_is_refused_by_name(tmp_path: Path) -> None:
    path = files(tmp_path, IMAGE, bmap=MAP[:-20])
    assert refused(path).startswith(f"{tmp_path}/card.img.bmap: not XML")


def test_an_image_that_is_changed_while_it_is_written_is_noticed(tmp_path: Path) -> None:
    path = files(tmp_path, IMAGE, packed=False)
    with image_file.opened(path) as image:
        contents = image_file.survey(image, lambda _: None)
        with path.open("r+b") as file:
            file.seek(BLOCK)
            file.write(b"changed")
        with pytest.raises(CommandError, match="wrong checksum"):
            for _ in image_file.chunks(image, contents):
                pass


def test_an_image_that_is_exchanged_while_it_is_written_stays_the_one_that_was_checked(tmp_path: Path) -> None:
    path = files(tmp_path, IMAGE)
    with image_file.opened(path) as image:
        contents = image_file.survey(image, lambda _: None)
        path.unlink()
        path.write_bytes(b"another one")
        seal(path)
        assert sum(len(data) for _, data in image_file.chunks(image, contents)) == len(IMAGE)


def test_without_zstd_its_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = files(tmp_path, IMAGE)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refused(path, Exit.UNAVAILABLE) == "zstd is missing: install the package zstd"
