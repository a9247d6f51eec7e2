"""Two slots: what GRUB is told of them, judged by a shell, whose language GRUB's is a part of; and RAUC."""

import configparser
import re
import subprocess
from pathlib import Path

import pytest

from image.make import slots
from image.make.boards import BOARDS, MIB, Role
from image.make.layout import layout
from image.make.texts import texts
from tests.unit.image.miniature import IDENTITY

_GRUB = """\
load_env() { :; }
regexp() { :; }
save_env() { for name in "$@"; do eval "echo $name=\\$$name"; done; }
set() { eval "${1%%=*}='${1#*=}'"; }
"""


def started(folder: Path, **variables: str) -> dict[str, str]:
    """What GRUB's menu chooses and writes, where these are its variables."""
    chooses = slots.menu(IDENTITY).partition("menuentry")[0]
    given = "".join(f"{name}='{value}'\n" for name, value in variables.items())
    script = folder / "menu.sh"
    script.write_text(f'{_GRUB}{given}{chooses}echo "default=$default"\n')
    done = subprocess.run(["bash", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return dict(line.split("=") for line in done.stdout.splitlines())


def variables(order: str, a: tuple[int, int], b: tuple[int, int]) -> dict[str, str]:
    """ORDER, and of each slot OK and TRY."""
    return {"ORDER": order, "A_OK": f"{a[0]}", "A_TRY": f"{a[1]}", "B_OK": f"{b[0]}", "B_TRY": f"{b[1]}"}


@pytest.mark.parametrize(("order", "a", "b", "chosen", "tries"), [
    ("A B", (1, 0), (0, 0), "A", (1, 0)),  # a new disk
    ("B A", (1, 0), (1, 0), "B", (0, 1)),  # upgraded
    ("B A", (1, 0), (1, 2), "B", (0, 3)),  # power went twice
    ("B A", (1, 0), (1, 3), "A", (1, 3)),  # B was not found good three times
    ("B A", (1, 0), (0, 0), "A", (1, 0)),  # B was given up
    ("B A", (1, 3), (1, 3), "B", (0, 0)),  # none is left
    ("A B", (0, 0), (0, 0), "A", (0, 0)),
])  # fmt: skip
def test_the_first_slot_that_is_good_and_has_tries_left_starts(
    tmp_path: Path, order: str, a: tuple[int, int], b: tuple[int, int], chosen: str, tries: tuple[int, int]
) -> None:
    found = started(tmp_path, **variables(order, a, b))
    assert found == {"default": chosen, "A_TRY": f"{tries[0]}", "B_TRY": f"{tries[1]}"}


def test_variables_that_are_lost_start_the_first_slot(tmp_path: Path) -> None:
    assert started(tmp_path)["default"] == ""  # GRUB takes the first entry


def test_a_new_disk_starts_its_first_slot(tmp_path: Path) -> None:
    block = slots.environment()
    assert len(block) == slots.ENVIRONMENT_BYTES
    assert block.startswith(b"# GRUB Environment Block\n")  # grub-core/lib/envblk.c
    given = dict(line.split("=") for line in block.decode().rstrip("#").splitlines()[1:])
    assert started(tmp_path, **given) == {"default": "A", "A_TRY": "1", "B_TRY": "0"}


def test_each_entry_starts_its_own_partition() -> None:
    found = layout(BOARDS["x86"], IDENTITY, MIB)
    assert found.other is not None
    menu = slots.menu(IDENTITY)
    for slot, partition in zip(slots.SLOTS, (found.root, found.other), strict=True):
        entry = re.search(rf"--id {slot.name} {{(.*?)}}", menu, re.DOTALL)
        assert entry is not None
        assert f"root=$disk,gpt{1 + found.partitions.index(partition)}\n" in entry[1]
        assert f"root={partition.name} " in entry[1]
        assert f"rauc.slot={slot.name} " in entry[1]
        assert f"tributary_disk={IDENTITY.disk}\n" in entry[1]


def test_grub_finds_the_boot_partition_by_its_volume_s_number() -> None:
    number = f"{IDENTITY.volume:08X}"
    assert slots.early(IDENTITY).startswith(f"search.fs_uuid {number[:4]}-{number[4:]} root\n")


def test_nothing_of_a_slot_names_the_disk_that_it_was_made_for() -> None:
    files = texts(BOARDS["x86"], Role.GATEWAY, layout(BOARDS["x86"], IDENTITY, MIB))
    numbers = {str(value) for value in vars(IDENTITY).values()} | {f"{IDENTITY.volume:08x}"}
    assert not [text.path for text in files if any(number in text.content for number in numbers)]


def test_rauc_knows_both_slots_by_the_names_that_grub_has_for_them() -> None:
    found = configparser.ConfigParser()
    found.read_string(slots.rauc("tributary-gateway-x86"))
    assert found["system"]["compatible"] == "tributary-gateway-x86"
    assert found["system"]["bundle-formats"] == "verity"
    for index, slot in enumerate(slots.SLOTS):
        section = found[f"slot.root.{index}"]
        assert (section["device"], section["bootname"]) == (f"/dev/tributary/{slot.partition}", slot.name)
        assert slot.partition in slots.UDEV_RULES.content
