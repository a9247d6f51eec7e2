"""What of a build is pure: names and numbers, places, versions, texts, boot code."""

import itertools
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from debs import parts
from image.make import grub, lock
from image.make.boards import BOARDS, MIB, Board, Role
from image.make.command import Runner
from image.make.layout import Layout, layout
from image.make.root import DISABLED, _Build
from image.partitions import SECTOR
from image.progress import Progress
from tests.unit.debs import sample
from tests.unit.image.miniature import BOTH, boot_image, core_image, files, spec
from tributary.settings.errors import CommandError

BROUGHT = {"libc6", "libgcc-s1", "dnsmasq-base"}
"""By the system itself, and by dnsmasq."""


def numbers(found: Layout) -> set[object]:
    """All by which the disk, its partitions and its file systems are told apart."""
    of_places = (number for each in found.places.values() for number in (each.name, each.filesystem))
    return {found.disk, found.volume, *of_places}


@BOTH
def test_the_same_image_has_the_same_numbers_and_another_has_others(board: Board) -> None:
    assert layout(board, "tributary-gateway-x86-1") == layout(board, "tributary-gateway-x86-1")
    one, other = (numbers(layout(board, name)) for name in ("tributary-router-rpi-1", "tributary-router-rpi-2"))
    assert len(one) == 2 + 2 * len(layout(board, "x").places)
    assert not one & other


@BOTH
def test_partitions_lie_apart_on_whole_mebibytes_and_the_one_that_grows_comes_last(board: Board) -> None:
    found = spec(board).layout
    places = [(each.start, each.start + each.size) for each in found.places.values()]
    assert all(start % MIB == end % MIB == 0 for start, end in places)
    assert places == sorted(places)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(places))
    assert list(found.places)[-1] == "data"
    assert found.places["root-a"].size == found.places["root-b"].size == board.slot_bytes
    assert found.size - places[-1][1] == (MIB if board.gpt else 0)  # a GPT has a second table


@BOTH
def test_the_table_names_partitions_as_fstab_does(board: Board) -> None:
    found = spec(board).layout
    script = found.script()
    for each in (found.places[link] for link in ("boot", "root-a", "root-b", "data")):
        number = each.name.removeprefix("PARTUUID=")
        assert f"uuid={number}" in script if board.gpt else f"label-id: 0x{number[:8]}" in script
        assert f"start={each.start // SECTOR}, size={each.size // SECTOR}" in script


@BOTH
@pytest.mark.parametrize("role", list(Role))
def test_packages_are_named_once_and_only_modems_have_another_way_to_be_configured(board: Board, role: Role) -> None:
    names = board.all_packages(role)
    assert list(names) == sorted(set(names))
    assert not {"ifupdown", "dhcpcd", "grub-pc", "grub-efi-amd64"} & set(names)
    # It dials modems, on a card that has some, and is told to leave everything else; it stays off otherwise.
    assert ("network-manager" in names) is (role is Role.ROUTER)
    assert "NetworkManager.service" in DISABLED
    assert ("squid" in names) is (role is Role.GATEWAY)
    assert {"dnsmasq", "wireguard-tools"} <= set(names), "the card of either may make a home router of it"


@pytest.mark.parametrize("role", Role)
def test_all_that_our_packages_depend_on_is_there_before_they_are_installed_without_a_network(role: Role) -> None:
    packages = [each for each in parts.packages(sample.inputs(sample.release())) if each.name in role.parts]
    assert len(packages) == len(role.parts) >= 4
    needed = {depend.split()[0] for each in packages for depend in each.depends}
    ours = {name for name in needed if name.startswith("tributary-")}
    assert needed - ours - BROUGHT <= set(BOARDS["x86"].all_packages(role))


@BOTH
def test_texts_are_for_the_disk_that_is_made(board: Board) -> None:
    found = files(board, Role.ROUTER)
    assert found["/usr/lib/tributary/role"] == "router\n"
    root, boot = (line.split() for line in found["/etc/fstab"].splitlines()[:2])
    assert (root[0], root[1], boot[0], boot[1]) == ("/dev/root", "/", "/dev/tributary/boot", "/boot/firmware")
    assert "noauto" not in boot[3].split(",")
    assert ("/etc/default/raspi-firmware" in found) is not board.gpt


def test_our_packages_are_installed_together_and_their_modules_compiled_to_be_known_by_their_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[Sequence[str], Mapping[str, str]]] = []

    def note(_: Runner, __: Path, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        ran.append((command, environment or {}))

    monkeypatch.setattr(Runner, "inside", note)
    (tmp_path / "root/var/tmp").mkdir(parents=True)
    (tmp_path / "packages").mkdir()
    for name in (*Role.ROUTER.parts, "tributary-squid"):
        (tmp_path / f"packages/{name}_1_all.deb").touch()
    runner = Runner(tmp_path / "log", Progress())
    _Build(spec("rpi", Role.ROUTER), tmp_path / "packages", Path(), tmp_path / "root", runner)._install()
    ((command, environment),) = ran
    assert command[-len(Role.ROUTER.parts) :] == [f"/var/tmp/{name}_1_all.deb" for name in Role.ROUTER.parts]
    assert "SOURCE_DATE_EPOCH" not in environment


def test_apt_gets_security_updates() -> None:
    sources = files("rpi")["/etc/apt/sources.list.d/debian.sources"]
    assert re.findall(r"^Suites: (.*)$", sources, re.MULTILINE) == ["trixie trixie-updates", "trixie-security"]
    assert sources.count("Signed-By: /") == 2


def test_ssh_takes_keys_alone_and_the_firewall_lets_nobody_in_before_a_card_says_whom() -> None:
    found = {role: files("rpi", role) for role in Role}
    assert "\nPasswordAuthentication no\n" in found[Role.ROUTER]["/etc/ssh/sshd_config.d/10-tributary.conf"]
    site = {role: texts["/etc/nftables.d/tributary-site.nft"] for role, texts in found.items()}
    assert [line for line in site[Role.ROUTER].splitlines() if "_ports" in line] == [
        "add element inet tributary-firewall admin_ports { 22 }",
        "add element inet tributary-firewall metrics_ports { 9100, 9301 }",
    ]
    assert "_networks" not in "".join(site.values())
    # A home router translates addresses for what is not converted.
    assert [" notrack\n" in site[role] for role in (Role.GATEWAY, Role.ROUTER)] == [True, False]


def test_the_first_sector_is_told_where_grub_lies_and_grub_where_it_goes_on() -> None:
    code = grub.boot_code(boot_image(), 2048)
    assert len(code) == 440
    assert struct.unpack_from("<Q", code, 0x5C) == (2048,)
    assert code[0x66:0x68] == b"\x90\x90"
    placed = grub.core(core_image(), 2048, MIB)
    assert struct.unpack_from("<QHH", placed, 500) == (2049, 2, 0x820)
    assert placed[512:] == core_image()[512:]


@pytest.mark.parametrize("make", [
    lambda: grub.boot_code(bytes(512), 1),
    lambda: grub.core(core_image() + bytes(512), 1, MIB),
    lambda: grub.core(core_image(), 1, 1024),
])  # fmt: skip
def test_a_grub_that_is_not_as_it_is_known_is_refused(make: Callable[[], bytes]) -> None:
    with pytest.raises(CommandError, match="GRUB"):
        make()


STATUS = """\
Package: bash
Status: install ok installed
Version: 5.2.37-2+b5
Description: a shell
 Package: not-this
 Version: 9

Package: gone
Status: deinstall ok config-files
Version: 1

Package: tributary-common
Status: install ok installed
Version: 0.1.0-1~deb13
"""


def test_dpkgs_database_gives_what_is_installed() -> None:
    found = lock.installed(STATUS)
    assert found == {"bash": "5.2.37-2+b5", "tributary-common": "0.1.0-1~deb13"}
    assert lock.debians(found) == {"bash": "5.2.37-2+b5"}


def test_a_lock_is_read_as_it_was_written() -> None:
    locks = {"router-rpi": {"libstdc++6": "14.2.0-19", "bash": "5.2"}, "router-x86": {"bash": "5.2"}}
    text = lock.text(locks)
    sections = ["[router-rpi]", "libstdc++6=14.2.0-19", "", "[router-rpi router-x86]", "bash=5.2"]
    assert text.splitlines()[2:] == sections
    assert lock.parse(text, "x") == locks


@pytest.mark.parametrize(("text", "named"), [("[x]\nbash 5\n", "bash 5"), ("\nbash=5\n[x]\n", "bash=5")])
def test_a_line_that_is_no_version_of_an_image_is_named(text: str, named: str) -> None:
    with pytest.raises(
        CommandError, match=rf"x\.lock: .*line:? +2\D.*'{named}.*: accepted: NAME=VERSION, below \[IMAGE"
    ):
        lock.parse(text, "x.lock")


@pytest.mark.parametrize("entry", ["bash=", "bash=5 6", "bash=5\n  dash=6"])
def test_a_version_that_is_none_is_named(entry: str) -> None:
    with pytest.raises(CommandError, match=r"x\.lock: 'bash=.*': accepted: NAME=VERSION"):
        lock.parse(f"[x]\n{entry}\n", "x.lock")


def test_packages_that_differ_are_listed() -> None:
    assert lock.differences({"a": "1"}, {"a": "1"}) == []
    lines = lock.differences({"a": "1", "b": "1"}, {"a": "2", "c": "1"})
    assert lock.told(lines, "x.lock").splitlines() == [
        "3 packages are not those of x.lock, which this was tested with:",
        "  a: 2, locked: 1",
        "  b: not there, locked: 1",
        "  c: 1, locked: not at all",
    ]
