"""Two slots on the disk of each board: what RAUC, udev and the kernel are told of them."""

import configparser
import re

from image.make import slots
from image.make.boards import Board
from image.upgrade.choice import SLOTS
from tests.unit.image.miniature import BOTH, files, spec


@BOTH
def test_nothing_of_a_slot_names_the_disk_that_it_was_made_for(board: Board) -> None:
    drive = spec(board).layout
    numbers = {drive.disk, f"{drive.volume:08x}"}
    numbers |= {number for each in drive.places.values() for number in (each.name, str(each.filesystem))}
    assert not [path for path, text in files(board).items() if any(number in text for number in numbers)]


@BOTH
def test_rauc_knows_both_slots_by_the_names_that_the_loader_has_for_them(board: Board) -> None:
    found = configparser.ConfigParser()
    found.read_string(files(board)["/etc/rauc/system.conf"])
    assert found["system"]["compatible"] == f"tributary-gateway-{board.name}"
    assert found["system"]["bundle-formats"] == "verity"
    for index, slot in enumerate(SLOTS):
        section = found[f"slot.root.{index}"]
        assert (section["device"], section["bootname"]) == (f"/dev/tributary/root-{slot.lower()}", slot)
    if board.gpt:
        assert (found["system"]["bootloader"], "handlers" in found) == ("grub", False)
    else:
        assert found["system"]["bootloader"] == "custom"
        assert found["handlers"]["bootloader-custom-backend"] == "/usr/lib/tributary/firmware-slots"


@BOTH
def test_each_slot_has_a_link_and_starts_with_its_own_root(board: Board) -> None:
    drive = spec(board).layout
    rules = files(board)["/usr/lib/udev/rules.d/65-tributary-slots.rules"]
    links = dict(re.findall(r'NUMBER}=="(\d)", SYMLINK\+="tributary/(\S+)"', rules))
    assert sorted(links.values()) == ["boot", "data", "root-a", "root-b"]
    for slot in SLOTS:
        number = drive.numbers[slots.partition(slot)]
        assert links[str(number)] == slots.partition(slot)
        root = f"root={list(drive.places.values())[number - 1].name}"
        words = slots.words(drive, slot).split()
        assert {root, f"rauc.slot={slot}", f"tributary_disk={drive.disk}"} <= set(words)
