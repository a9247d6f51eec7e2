"""Block maps, bmap-tools' format 2.0."""

import hashlib
from collections.abc import Callable

import pytest

from image.flash.bmap import Contents, Range, parse
from tests.unit.image.flash.made import bmap_of, disk_image, sealed

IMAGE = disk_image(12)
RANGES = [(0, 1), (3, 5), (11, 11)]
TEXT = bmap_of(IMAGE, RANGES).decode()


def test_ranges_become_bytes_with_their_checksums() -> None:
    contents = parse(TEXT.encode())
    assert contents.size == len(IMAGE)
    assert [(part.start, part.end) for part in contents.ranges] == [(0, 8192), (12288, 24576), (45056, 49152)]
    assert contents.ranges[1].sha256 == hashlib.sha256(IMAGE[12288:24576]).hexdigest()
    assert contents.mapped == 6 * 4096
    assert contents.gaps == ((8192, 12288), (24576, 45056))


def test_an_image_may_end_within_its_last_block() -> None:
    contents = parse(bmap_of(IMAGE[:-512], RANGES))
    assert contents.ranges[-1].end == len(IMAGE) - 512


def test_a_range_may_have_no_checksum() -> None:
    text = unsealed(TEXT).replace(f' chksum="{hashlib.sha256(IMAGE[45056:]).hexdigest()}"', "")
    assert parse(sealed(text)).ranges[-1] == Range(45056, 49152, None)


def test_spaces_and_order_of_fields_do_not_matter() -> None:
    text = (
        unsealed(TEXT)
        .replace("<BlockSize> 4096 </BlockSize>", "")
        .replace("<ImageSize>", "<BlockSize>4096</BlockSize><ImageSize>")
    )
    assert parse(sealed(text)) == parse(TEXT.encode())


def unsealed(text: str) -> str:
    start = text.index("<BmapFileChecksum> ") + len("<BmapFileChecksum> ")
    return text[:start] + "0" * 64 + text[start + 64 :]


def changed(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text[:200], "not XML"),
        (changed('version="2.0"', 'version="1.3"'), "version 1.3"),
        (changed("bmap>", "map>"), "not XML"),
        (changed("> sha256 <", "> sha512 <"), "checksums of type sha512"),
        (changed("<ImageSize> 49152 </ImageSize>", ""), "it has no ImageSize"),
        (changed("<ImageSize> 49152 <", "<ImageSize> -1 <"), "ImageSize is '-1'"),
        (changed("<BlockSize> 4096 <", "<BlockSize> 512 <"), "accepted: blocks of a multiple of 4096"),
        (changed("<BlockSize> 4096 <", "<BlockSize> 0 <"), "accepted: blocks of a multiple of 4096"),
        (changed("<BlocksCount> 12 <", "<BlocksCount> 13 <"), "49152 bytes in 13 blocks"),
        (changed("> 0-1 <", "> 1-2 <"), "its first block is not mapped"),
        (changed("> 3-5 <", "> 5-3 <"), "ends before it begins"),
        (changed("> 11 <", "> 12 <"), "after the image"),
        (changed("> 3-5 <", "> 1-3 <"), "not in order"),
        (changed("> 3-5 <", "> 3-6 <"), "do not add up"),
        (changed("> 3-5 <", "> three <"), "the range ' three '"),
        (changed('chksum="', 'chksum="x'), "a SHA-256"),
    ],
)
def test_a_wrong_map_is_refused_with_what_is_wrong(change: Callable[[str], str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse(sealed(change(unsealed(TEXT))))


def test_a_damaged_map_is_refused() -> None:
    with pytest.raises(ValueError, match="its own checksum does not match"):
        parse(TEXT.replace("> 3-5 <", "> 3-6 <").encode())


def test_a_map_without_a_checksum_of_its_own_is_refused() -> None:
    start = TEXT.index("<BmapFileChecksum>")
    with pytest.raises(ValueError, match="its own checksum"):
        parse((TEXT[:start] + "<BmapFileChecksum> </BmapFileChecksum>" + TEXT[start + 104 :]).encode())


def test_contents_without_a_map_are_one_range() -> None:
    assert Contents(512, (Range(0, 512, None),)).mapped == 512
