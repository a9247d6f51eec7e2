import ipaddress
import tomllib

import pytest

from squid import targets
from squid.settings import SquidSettings
from tests.forbidden_targets import CASES, CLOSED
from tests.refusals import command_error
from tributary.settings import hosts
from tributary.settings.errors import Exit
from tributary.settings.files import check

ROWS = [(case.opened, *row) for case in CASES for row in case.rows]


def holds(networks: list[hosts.Network], address: hosts.Address) -> bool:
    return any(address in network for network in networks)


def verdict(text: str, opened: list[hosts.Network]) -> str:
    """As Squid comes to it, by one ACL after the other; to Squid a mapped address is the IPv4 one."""
    given = ipaddress.ip_address(text)
    address = getattr(given, "ipv4_mapped", None) or given
    if holds(targets.never(), address):
        return "never"
    return "private" if holds(targets.private(opened), address) else "reached"


@pytest.mark.parametrize(("opened", "expected", "address"), ROWS)
def test_address_gets_its_verdict(opened: tuple[str, ...], expected: str, address: str) -> None:
    assert verdict(address, [ipaddress.ip_network(text) for text in opened]) == expected


@pytest.mark.parametrize(("network", "because"), CLOSED)
def test_what_nobody_may_open_is_refused_with_key_value_and_reason(network: str, because: str) -> None:
    text = str(ipaddress.ip_network(network))
    begins = f"squid.toml: private_targets[0] = '{text}': accepted: networks inside 10.0.0.0/8"
    with command_error(Exit.USAGE, "never ", because, begins=begins):
        check(tomllib.loads(f'private_targets = ["{text}"]'), SquidSettings, "squid.toml")


def test_every_range_is_written_once_and_says_why_and_none_overlap() -> None:
    networks = [each.network for each in targets.RANGES]
    assert len(set(networks)) == len(networks)
    assert all(each.reason for each in targets.RANGES)
    both = [*targets.never(), *targets.private([ipaddress.ip_network("10.20.0.0/16")])]
    for networks in (targets.never(), targets.private([]), targets.disjoint(both)):
        pairs = [(a, b) for a in networks for b in networks if a is not b and a.version == b.version]
        assert not any(a.overlaps(b) for a, b in pairs)
    assert not any(network.version == 6 and network.overlaps(targets.MAPPED) for network in targets.never())


def test_own_addresses_are_own_in_the_forms_too_that_an_operator_may_open() -> None:
    own = [ipaddress.ip_network("203.0.113.1"), ipaddress.ip_network("2001:db8::1")]
    assert targets.carrying(own) == [ipaddress.ip_network("64:ff9b::203.0.113.1")]
