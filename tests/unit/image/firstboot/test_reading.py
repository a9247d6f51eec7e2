"""The card's file as it is read: what editors make of it, how much of it is repeated, values that are left out."""

import re
from collections.abc import Iterator
from typing import get_args, get_origin

import pytest
from pydantic import BaseModel

from image.firstboot.__main__ import main
from image.firstboot.reading import read
from image.firstboot.settings import Card, Role
from tests.unit.image.firstboot.cards import HOME, lines
from tests.unit.image.firstboot.systems import SHA512, YESCRYPT


def test_all_that_is_wrong_is_said_at_once() -> None:
    found = lines('role = "x"\nhostname = "A"\n[wan.dsl]\n[lan]\ninterface = "end0"\n')
    assert [line.split(" ")[1] for line in found] == ["role", "hostname", "wan.dsl", "lan.address"]


def test_a_file_that_is_no_text_or_no_toml_is_named() -> None:
    assert "not text in UTF-8" in lines('role = "router"'.encode("utf-16"))[0]
    for value in ("", 5000 * "2", 5000 * "["):
        assert "not valid TOML" in lines(f"role = {value}")[0]


def test_curly_quotes_are_named() -> None:
    assert "quotes must be straight ones" in lines("role = \u201crouter\u201d")[0]
    assert "straight" not in lines("# \u201chere\u201d\nrole = ")[0]


def test_a_private_key_is_not_repeated() -> None:
    (line,) = lines('ssh_keys = ["""-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n"""]')
    assert "c2VjcmV0" not in line
    assert "belongs nowhere but to its owner" in line


def test_a_value_is_repeated_only_as_far_as_it_helps() -> None:
    assert len(lines(f'hostname = "{"a" * 500}"')[0]) < 250


def test_editors_of_windows_are_no_obstacle() -> None:
    assert read(b'\xef\xbb\xbfrole = "router"\r\nhostname = "box"\r\n', Role.GATEWAY).hostname == "box"


@pytest.mark.parametrize("hashed", [YESCRYPT, SHA512, SHA512.replace("$6$", "$6$rounds=9000$")])
def test_hashes_of_both_kinds_are_accepted(hashed: str) -> None:
    assert read(f'password_hash = "{hashed}"'.encode(), Role.GATEWAY).password_hash == hashed


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("203.0.113.5", "203.0.113.5:5124"),
        ("203.0.113.5:99", "203.0.113.5:99"),
        ("2001:db8::5", "[2001:db8::5]:5124"),
        ("[2001:db8::5]:99", "[2001:db8::5]:99"),
    ],
)
def test_a_gateway_has_the_usual_port_unless_it_says_another(text: str, target: str) -> None:
    assert str(read(f'gateway = "{text}"'.encode(), Role.GATEWAY).gateway) == target


@pytest.mark.parametrize(
    ("address", "first", "last"),
    [
        ("192.168.77.1/24", "192.168.77.128", "192.168.77.254"),
        ("192.168.77.200/24", "192.168.77.1", "192.168.77.127"),
        ("10.0.0.1/30", "10.0.0.2", "10.0.0.2"),
        ("10.0.0.1/8", "10.128.0.0", "10.255.255.254"),
    ],
)
def test_devices_get_the_half_of_the_network_that_the_box_is_not_in(address: str, first: str, last: str) -> None:
    lan = read(HOME.replace("192.168.77.1/24", address).encode(), Role.ROUTER).lan
    assert lan is not None
    assert lan.leases is not None
    assert tuple(map(str, lan.leases)) == (first, last)


def tables(annotation: object) -> Iterator[type[BaseModel]]:
    """The models in a type such as ``dict[str, Wan]`` or ``Lan | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from tables(each)


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """All keys of a table and of the tables in it, as the help writes them."""
    for name, field in model.model_fields.items():
        inner = next(tables(field.annotation), None)
        many = "NAME." if get_origin(field.annotation) is dict else ""
        yield from keys(inner, f"{prefix}{name}.{many}") if inner else (f"{prefix}{name}",)


def test_the_help_explains_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    explained = re.findall(r"^  ([A-Za-z0-9_.]+): ", capsys.readouterr().out, re.MULTILINE)
    assert set(keys(Card)) - {"routers.name"} <= set(explained)
