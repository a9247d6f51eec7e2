"""Where a box has the console's page, for whom, and what people are told of it."""

import tomllib

import pytest

from image.firstboot.console import FIXES, UNIT
from image.firstboot.reading import read
from image.firstboot.report import next_steps
from image.firstboot.settings import Role
from tests.unit.image.firstboot.cards import HOME
from tests.unit.image.firstboot.systems import facts, public_key, texts
from tests.unit.image.firstboot.test_plan import units

FIREWALL = "/etc/nftables.d/tributary-site-card.nft"
KEY = f'ssh_keys = ["{public_key()}"]\n'
HASH = "$7$CU..../....abcdefghij$GzTqWxTF0u6fjw43rLfGGkQ5Ouxbz0v8/EXOH8rRfU8"


def listens(card: str, role: Role) -> list[str]:
    return list(tomllib.loads(texts(card, facts(role))["/etc/tributary/console.toml"])["listen"])


def lets_in(card: str, role: Role) -> list[str]:
    return [line for line in texts(card, facts(role))[FIREWALL].splitlines() if "dport 8480" in line]


def told(card: str, role: Role) -> str:
    found = next_steps(read(card.encode(), role), facts(role), ["192.0.2.7"])
    return next((line for line in found if line.startswith("Its page")), "")


def test_a_home_router_has_it_for_its_lan_alone() -> None:
    card = f'admin_networks = ["10.0.2.0/24"]\n{HOME}'
    assert listens(card, Role.ROUTER) == ["192.168.77.1", "127.0.0.1"]
    (rule,) = lets_in(card, Role.ROUTER)
    assert "iifname @lan_interfaces ip daddr 192.168.77.1 tcp dport 8480" in rule
    assert "http://192.168.77.1:8480/" in told(card, Role.ROUTER)


@pytest.mark.parametrize(
    ("networks", "where", "rules", "page"),
    [
        ([], ["127.0.0.1"], [], "ssh -L 8480:127.0.0.1:8480 tributary@192.0.2.7"),
        (["198.51.100.0/24", "0.0.0.0/0", "::/0"], ["127.0.0.1"], [], "ssh -L"),
        (["0.0.0.0/0", "10.1.0.0/16"], ["0.0.0.0"], ["ip saddr { 10.1.0.0/16 }"], "http://192.0.2.7:8480/ from 10.1.0"),
        (["fd00:1::/64"], ["127.0.0.1", "[::]:8480"], ["ip6 saddr { fd00:1::/64 }"], "from fd00:1::/64"),
    ],
)
def test_a_gateway_has_it_for_its_private_admin_networks(
    networks: list[str], where: list[str], rules: list[str], page: str
) -> None:
    card = f"{KEY}admin_networks = {networks}\n"
    assert listens(card, Role.GATEWAY) == where
    found = lets_in(card, Role.GATEWAY)
    assert len(found) == len(rules) and all(rule in line for rule, line in zip(rules, found, strict=True))
    assert page in told(card, Role.GATEWAY)


@pytest.mark.parametrize(("card", "role"), [(HOME, Role.ROUTER), ('admin_networks = ["10.0.0.0/8"]\n', Role.GATEWAY)])
def test_there_is_none_where_it_is_off(card: str, role: Role) -> None:
    off = f'console = "off"\n{card}'
    for unit in (UNIT, FIXES):
        assert units(card, facts(role))[unit] and not units(off, facts(role))[unit]
    assert lets_in(off, role) == [] and told(off, role) == ""
    assert "/etc/tributary/console.toml" not in texts(off, facts(role))


def test_what_a_gateway_s_card_says_of_a_lan_does_not_count() -> None:
    card = f"{KEY}{HOME}"
    assert listens(card, Role.GATEWAY) == ["127.0.0.1"]
    assert "ssh -L" in told(card, Role.GATEWAY)


@pytest.mark.parametrize(
    ("key", "how"),
    [
        ("", "add console_password_hash"),
        (KEY, "sudo tributary console login"),
        (f'{KEY}console_password_hash = "{HASH}"\n', "the password of console_password_hash"),
    ],
)
def test_people_are_told_how_to_log_in(key: str, how: str) -> None:
    assert how in told(f"{key}{HOME}", Role.ROUTER)
