"""What is seen of a machine: /sys in a folder."""

import os
from pathlib import Path

import pytest

from command import steering
from image.firstboot import first_start, look
from image.firstboot.actions import Owner
from image.firstboot.interfaces import interfaces
from image.firstboot.memory import NOTHING, Memory
from image.firstboot.settings import Role
from tests.unit.image.firstboot.systems import UNITS, make_system
from tributary.settings.errors import CommandError
from tributary.settings.units import PositiveRate


def make_interface(sys: Path, name: str, kind: int, *, device: bool, wireless: bool = False) -> None:
    folder = sys / "class/net" / name
    folder.mkdir(parents=True)
    (folder / "type").write_text(f"{kind}\n")
    for given, entry in ((device, "device"), (wireless, "phy80211")):
        if given:
            (folder / entry).mkdir()


def test_facts_name_interfaces_account_and_units(tmp_path: Path) -> None:
    sys = tmp_path / "sys"
    for name, kind, device, wireless in (
        ("lo", 772, False, False),
        ("br0", 1, False, False),
        ("end0", 1, True, False),
        ("wlan0", 1, True, True),
        ("wwan0", 65534, True, False),
    ):
        make_interface(sys, name, kind, device=device, wireless=wireless)
    root = make_system(tmp_path / "root")
    (root / "etc/group").write_text("tributary:x:991:\ntributary-steer:x:992:tributary\n")
    found = look.facts(root, Role.ROUTER, Memory("x", ("/etc/a",), ("b@c.service",)), sys)
    assert (found.wired, found.wireless) == (("end0",), ("wlan0",))
    assert (found.home, found.owner) == ("/home/tributary", Owner(os.getuid(), os.getgid()))
    assert (found.units, found.steering_group) == (frozenset(UNITS), 992)
    assert (found.role, found.owned_files, found.owned_units) == (Role.ROUTER, ("/etc/a",), ("b@c.service",))


def test_facts_name_what_commands_saved_and_not_what_was_written_by_hand(tmp_path: Path) -> None:
    root = make_system(tmp_path)
    settings, rule = root / "etc/tributary/router.toml", steering.limit_rule("link1", PositiveRate.parse("2mbit"))
    steering.save(settings, "use-my-lte", "[wan.my-lte]", {"use": "backup"})
    steering.save(settings.with_name("throttler.toml"), steering.limit_name("link1"), "[[rules]]", rule)
    (root / "etc/tributary/router.d/use-night.toml").write_text('[wan.lte]\nuse = "backup"\n')
    (root / "etc/tributary/throttler.d/mine.toml").write_text('[[rules]]\nname = "mine"\n')
    assert look.facts(root, Role.ROUTER, NOTHING).saved == (
        ("/etc/tributary/router.d/use-my-lte.toml", "my-lte"),
        ("/etc/tributary/throttler.d/limit-link1.toml", "link1"),
    )


@pytest.mark.parametrize(
    ("bus", "described", "built_in"),
    [
        ("platform", "", True),
        ("pci", "", True),
        ("usb", "", False),
        ("usb", "1-1.1", True),
        ("usb", "1-1.1/1-1.1:1.0", True),
    ],
    ids=["a Pi 4's", "a PC's", "an adapter", "a Pi 3's, its device", "a Pi 3's, its interface"],
)
def test_a_port_on_the_board_is_told_from_an_adapter(tmp_path: Path, bus: str, described: str, built_in: bool) -> None:
    sys, device = tmp_path / "sys", tmp_path / "sys/devices/1-1.1/1-1.1:1.0"
    make_interface(sys, "end0", 1, device=False)
    device.mkdir(parents=True)
    (sys / "bus" / bus).mkdir(parents=True)
    (device / "subsystem").symlink_to(sys / "bus" / bus)
    (sys / "class/net/end0/device").symlink_to(device)
    if described:
        (sys / "devices" / described / "of_node").mkdir()
    assert [each.built_in for each in interfaces(sys)] == [built_in]
    assert look.assumed(Role.ROUTER, sys).built_in == (("end0",) if built_in else ())


def test_a_code_that_was_made_stays_and_fits_however_it_is_typed(tmp_path: Path) -> None:
    root = make_system(tmp_path)
    first, second = (look.facts(root, Role.ROUTER, NOTHING).code for _ in range(2))
    assert first != second and len(first) == len(second) == 8
    (root / first_start.PLACE).parent.mkdir(parents=True)
    (root / first_start.PLACE).write_text(f"{first}\n")
    assert look.facts(root, Role.ROUTER, NOTHING).code == first
    assert first_start.shown("abcdefgh") == "abcd-efgh"
    for given in ("abcd-efgh", "ABCDEFGH", " ab cd-ef gh ", "abcdefgh"):
        assert first_start.fits(given, "abcdefgh")
    for given in ("", "abcdefg", "abcdefghj", "abcdefg\u00e9"):
        assert not first_start.fits(given, "abcdefgh")
    assert not first_start.fits("", "")


def test_an_image_without_the_user_is_named(tmp_path: Path) -> None:
    root = make_system(tmp_path)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
    with pytest.raises(CommandError, match="has no user tributary"):
        look.facts(root, Role.ROUTER, NOTHING)


def test_the_image_s_role_is_a_gateway_s_unless_it_says_so(tmp_path: Path) -> None:
    assert look.image_role(tmp_path) is Role.GATEWAY
    file = tmp_path / look.ROLE
    file.parent.mkdir(parents=True)
    file.write_text("router\n")
    assert look.image_role(tmp_path) is Role.ROUTER
    file.write_text("converter\n")
    with pytest.raises(CommandError, match="accepted: gateway or router"):
        look.image_role(tmp_path)
