"""What images are made of."""

import re
from pathlib import Path

import pytest

from image.make.boards import BOARDS, Role

CONTROL = Path(__file__).parents[2] / "debs/golden"
BROUGHT = {"libc6", "libgcc-s1", "dnsmasq-base"}
"""By the system itself, and by dnsmasq."""


@pytest.mark.parametrize("role", Role)
def test_all_that_our_packages_depend_on_is_there_before_they_are_installed_without_a_network(role: Role) -> None:
    controls = [(CONTROL / f"{part}.deb13-amd64.txt").read_text() for part in role.parts]
    lists = re.findall(r"^Depends: (.+)$", "\n".join(controls), re.MULTILINE)
    assert len(lists) >= 4
    needed = {each.split()[0] for depends in lists for each in depends.split(", ")}
    ours = {name for name in needed if name.startswith("tributary-")}
    assert needed - ours - BROUGHT <= set(BOARDS["x86"].all_packages(role))
