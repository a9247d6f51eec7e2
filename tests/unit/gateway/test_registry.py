import os
import stat
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from gateway.forwards import with_added, without
from gateway.registry import Registry, Router, free_number, name_of
from gateway.state import State
from tests.refusals import command_error
from tests.unit.gateway.house import NETWORK, identity, key, router
from tributary.daemons import directories
from tributary.settings.errors import CommandError, Exit
from tributary.settings.ports import Ports


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "state/routers", NETWORK)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_written_is_read_again(registry: Registry) -> None:
    assert registry.read() == {}
    registry.write("paris", router(2, following=3))
    registry.write("berlin", router(1))
    assert registry.read() == {"berlin": router(1), "paris": router(2, following=3)}
    assert list(registry.read()) == ["berlin", "paris"]
    for _ in range(2):
        assert registry.revoke(["paris"], {"berlin": router(1)}) == []
    assert registry.read() == {"berlin": router(1)}


def test_only_root_may_look(registry: Registry) -> None:
    registry.write("berlin", router(1))
    assert mode(registry.folder) == 0o700
    assert mode(registry.folder / "berlin.toml") == 0o600
    assert [path.name for path in registry.folder.iterdir()] == ["berlin.toml"]


@pytest.mark.parametrize("name", ["", "Berlin", "a/b", "..", "a.b", "a_b", "a" * 41, "a\n"])
def test_a_name_is_short_and_plain(name: str) -> None:
    with command_error(Exit.USAGE, "1 to 40 of a-z"):
        name_of(name)


def test_a_file_that_a_person_named_wrongly_is_refused(registry: Registry) -> None:
    registry.write("Berlin", router(1))
    with command_error(Exit.USAGE, "'Berlin'", str(registry.folder / "Berlin.toml")):
        registry.read()


@pytest.mark.parametrize(
    ("line", "instead", "complaint"),
    [
        ("number = 1\n", "number = 4096\n", "no block 4096"),
        ("number = 1\n", "number = 0\n", "number = 0"),
        ("number = 1\n", "", "number = '(missing)'"),
        ("number = 1\n", "number = 1\nplace = 2\n", "one of the keys enrolled, forward, keys, lan, next, number"),
        (f'    "{key(1, 8)}",\n', "", "9 public keys"),
        (f'    "{key(1, 8)}",\n', f'    "{key(1, 7)}",\n', "no two the same"),
        ("+00:00", "", "offset from UTC"),
    ],
)
def test_a_wrong_file_is_refused_by_its_name(registry: Registry, line: str, instead: str, complaint: str) -> None:
    registry.write("berlin", router(1))
    file = registry.folder / "berlin.toml"
    assert line in file.read_text()
    file.write_text(file.read_text().replace(line, instead))
    with command_error(Exit.USAGE, complaint, str(file)):
        registry.read()


@pytest.mark.parametrize(
    ("second", "what"),
    [(router(1), "number: 1"), (Router(**{**router(2).model_dump(), "keys": router(1).keys}), "key: ")],
)
def test_two_routers_have_nothing_in_common(registry: Registry, second: Router, what: str) -> None:
    registry.write("berlin", router(1))
    registry.write("paris", second)
    with pytest.raises(CommandError, match=f"berlin.toml and paris.toml have the same {what}"):
        registry.read()


def test_ports_that_lead_to_a_router_are_kept_in_its_file_and_may_be_next_to_another_s(
    registry: Registry,
) -> None:
    registry.write("berlin", router(1, following=2, forward=["tcp/443", "udp/27015-27020"]))
    assert 'forward = [\n    "tcp/443",\n    "udp/27015-27020",\n]' in (registry.folder / "berlin.toml").read_text()
    assert registry.read()["berlin"].rotated() == router(2, forward=["tcp/443", "udp/27015-27020"])
    registry.write("berlin", router(1, forward=["udp/1-100", "tcp/50"]))
    registry.write("paris", router(2, forward=["udp/101", "tcp/51-60"]))
    assert len(registry.read()) == 2


@pytest.mark.parametrize(
    ("berlin", "paris", "complaint"),
    [
        (["tcp/443"], ["udp/443", "tcp/440-445"], "tcp/443 cannot be forwarded to berlin: tcp/440-445 is, to paris"),
        (["udp/1-100"], ["udp/50"], "udp/50 cannot be forwarded to paris: udp/1-100 is, to berlin"),
        (["tcp/443", "tcp/443"], [], "tcp/443 cannot be forwarded to berlin: tcp/443 is, to berlin"),
        (["tcp/20-30"], [], "tcp/20-30 cannot be forwarded to berlin: the gateway itself needs tcp/22"),
        (["udp/51840"], [], "the gateway itself needs udp/51840"),
        (["icmp/8"], [], "forward[0] = 'icmp/8': accepted: tcp/ or udp/"),
    ],
)
def test_ports_that_contradict_each_other_are_refused(
    registry: Registry, berlin: list[str], paris: list[str], complaint: str
) -> None:
    for number, (name, ports) in enumerate({"berlin": berlin, "paris": paris}.items(), start=1):
        registry.write(name, router(number))
        file = registry.folder / f"{name}.toml"
        file.write_text(f"forward = {ports}\n{file.read_text()}")
    with command_error(Exit.USAGE, complaint):
        Registry(registry.folder, NETWORK, (Ports("tcp", 22, 22), Ports("udp", 51840, 51840))).read()


def test_ports_are_added_once_and_removed_as_they_were_given() -> None:
    web, game = Ports.parse("tcp/443"), Ports.parse("udp/27015-27020")
    assert with_added([game], [web, game]) == [web, game]
    assert without([web, game], [web]) == [game]
    with pytest.raises(ValueError, match="udp/27015 is not forwarded: accepted: tcp/443, udp/27015-27020"):
        without([web, game], [Ports.parse("udp/27015")])


def test_a_rotation_gives_other_addresses_and_keys(registry: Registry) -> None:
    registry.write("berlin", router(1, following=1))
    with pytest.raises(CommandError, match="the same number: 1"):
        registry.read()


def test_the_least_number_is_free_that_no_rotation_holds_either_until_the_network_is_full() -> None:
    assert free_number({}, NETWORK) == 1
    assert free_number({"a": router(1), "b": router(3)}, NETWORK) == 2
    assert free_number({"a": router(1, following=2), "b": router(3)}, NETWORK) == 4
    with command_error(Exit.UNAVAILABLE, "is full: 1 routers"):
        free_number({"a": router(1)}, IPv4Network("10.84.0.0/27"))


def test_a_rotation_ends_with_the_next_in_the_place_of_the_first() -> None:
    assert router(1, following=2).rotated() == router(2)
    assert router(1).rotated() == router(1)
    assert router(1, following=2).identities == (router(1, following=2), identity(2))


def test_a_lan_keeps_its_number_through_rotations_and_nobody_else_gets_it(registry: Registry) -> None:
    renewed = router(1, following=2)
    assert renewed.next is not None
    kept = renewed.model_copy(update={"next": renewed.next.model_copy(update={"lan": 1})})
    registry.write("berlin", kept)
    assert registry.read()["berlin"].next == kept.next
    registry.write("berlin", kept.rotated())
    berlin = registry.read()["berlin"]
    assert (berlin.number, berlin.lan_number) == (2, 1)
    assert free_number({"berlin": berlin}, NETWORK) == 3
    registry.write("paris", router(1))
    with pytest.raises(CommandError, match=r"berlin\.toml and paris\.toml have the same number of a LAN: 1"):
        registry.read()


def test_commands_wait_for_each_other(tmp_path: Path) -> None:
    with State(tmp_path).locked(), pytest.raises(BlockingIOError), directories.lock_file(tmp_path / "gateway.lock"):
        pass


def test_one_wrong_file_keeps_that_router_out_and_no_other(registry: Registry) -> None:
    """A typo in one router's file: all others have access, and the line that says what is wrong names the file."""
    for number, name in enumerate(("berlin", "paris", "rome"), start=1):
        registry.write(name, router(number))
    file = registry.folder / "paris.toml"
    file.write_text(file.read_text().replace("number = ", "nummer = "))
    contents = registry.look()
    assert list(contents.routers) == ["berlin", "rome"] and list(contents.faults) == ["paris"]
    (note,) = contents.notes
    assert str(file) in note and "number = '(missing)'" in note and "no access" in note


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"number = ", b"[number]", b"number = 99999999\n", b'number = "x"\n', b"\0" * 100]
)
def test_whatever_is_in_a_file_others_are_read(registry: Registry, content: bytes) -> None:
    registry.write("berlin", router(1))
    (registry.folder / "paris.toml").write_bytes(content)
    contents = registry.look()
    assert list(contents.routers) == ["berlin"] and list(contents.faults) == ["paris"]


def test_what_is_no_file_at_all_or_has_a_wrong_name_is_reported(registry: Registry) -> None:
    registry.write("berlin", router(1))
    registry.write("Rome", router(3))
    (registry.folder / "paris.toml").mkdir()
    (registry.folder / "gone.toml").symlink_to(registry.folder / "nowhere")
    assert set(registry.look().faults) == {"Rome", "gone", "paris"}


def test_a_number_in_a_file_that_is_not_accepted_is_given_to_nobody(registry: Registry) -> None:
    registry.write("berlin", router(1))
    registry.write("paris", router(2))
    (registry.folder / "paris.toml").write_text('nummer = "2"\nlan=4\nkeys = [\n')
    contents = registry.look()
    assert free_number(contents.routers, NETWORK, contents.reserved) == 3
    assert {2, 4} <= contents.reserved


@pytest.mark.parametrize("changed_last", ["berlin", "paris"])
def test_of_two_files_that_contradict_each_other_the_older_counts(registry: Registry, changed_last: str) -> None:
    registry.write("berlin", router(1, forward=["tcp/443"]))
    registry.write("paris", router(2, forward=["tcp/443"]))
    os.utime(registry.folder / f"{changed_last}.toml", (2e9, 2e9))
    contents = registry.look()
    assert list(contents.faults) == [changed_last]
    assert "tcp/443" in contents.notes[0]
