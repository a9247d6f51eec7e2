"""GRUB's menu for two slots, judged by a shell, whose language GRUB's is a part of."""

import re
import subprocess
from pathlib import Path

import pytest

from image.make import grub, slots
from image.make.texts import texts
from image.upgrade import grubenv
from tests.unit.image.miniature import spec

LAYOUT = spec("x86").layout
(MENU,) = (each.text for each in texts(spec("x86"), "x86-disk"))
_GRUB = """\
load_env() { :; }
regexp() { :; }
save_env() { for name in "$@"; do eval "echo $name=\\$$name"; done; }
set() { eval "${1%%=*}='${1#*=}'"; }
"""


def started(folder: Path, **variables: str) -> dict[str, str]:
    """What GRUB's menu chooses and writes, where these are its variables."""
    chooses = MENU.partition("menuentry")[0]
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


def test_a_new_disk_and_one_whose_variables_are_lost_start_the_first_slot(tmp_path: Path) -> None:
    assert started(tmp_path)["default"] == ""  # GRUB takes the first entry
    block = grubenv.environment()
    assert len(block) == grubenv.BYTES
    assert block.startswith(b"# GRUB Environment Block\n")  # grub-core/lib/envblk.c
    given = dict(line.split("=") for line in block.decode().rstrip("#").splitlines()[1:])
    assert started(tmp_path, **given) == {"default": "A", "A_TRY": "1", "B_TRY": "0"}


def test_each_entry_starts_its_own_partition() -> None:
    for slot, number in (("A", 3), ("B", 4)):
        entry = re.search(rf"--id {slot} {{(.*?)}}", MENU, re.DOTALL)
        assert entry is not None
        assert f"root=$disk,gpt{number}\n" in entry[1]
        assert f"root={LAYOUT.places[slots.partition(slot)].name} " in entry[1]
        assert f"rauc.slot={slot} " in entry[1]
        assert f"tributary_disk={LAYOUT.disk} " in entry[1]


def test_grub_finds_the_boot_partition_by_its_volume_s_number() -> None:
    number = f"{LAYOUT.volume:08X}"
    assert grub.early(LAYOUT).startswith(f"search.fs_uuid {number[:4]}-{number[4:]} root\n")
