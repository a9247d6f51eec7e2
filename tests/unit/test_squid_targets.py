"""The table of addresses that are never a target, and of those that an operator may open."""

import ipaddress

import pytest

from squid import targets

# One address for each row of the table of faults, and its edges.
REFUSED = """0.0.0.0 0.255.255.255 127.0.0.1 127.255.255.255 169.254.0.1 169.254.169.254 192.0.0.170 192.88.99.1
    100.100.100.200 168.63.129.16 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
    :: ::1 ::127.0.0.1 ::ffff:0:127.0.0.1 64:ff9b::127.0.0.1 64:ff9b::a00:1 64:ff9b:1::7f00:1 100::1 2001::1
    2002:7f00:1:: 2002:a00:1::1 5f00::1 fd00:ec2::254 fe80::1 febf::1 fec0::1 ff02::1"""
OPENED = """1.1.1.1 8.8.8.8 126.255.255.255 128.0.0.1 169.253.255.255 192.0.2.1 198.51.100.1 203.0.113.1 223.255.255.255
    2001:db8::1 2001:4860:4860::8888 2606:4700::1111 2a00::1"""
PRIVATE = "10.0.0.1 100.64.0.1 172.16.0.1 172.31.255.255 192.168.255.255 198.18.0.1 fc00::1 fd00::1"


def holds(networks: list[targets.Network], address: str) -> bool:
    return any(ipaddress.ip_address(address) in network for network in networks)


@pytest.mark.parametrize("address", REFUSED.split())
def test_address_is_never_a_target(address: str) -> None:
    assert holds(targets.never(), address)


@pytest.mark.parametrize("address", OPENED.split())
def test_public_and_documentation_addresses_are_targets(address: str) -> None:
    assert not holds([*targets.never(), *targets.private([])], address)


@pytest.mark.parametrize("address", PRIVATE.split())
def test_private_address_is_refused_unless_allowed(address: str) -> None:
    assert holds(targets.private([]), address)
    assert not holds(targets.private([ipaddress.ip_network(address)]), address)


def test_allowing_a_part_leaves_the_rest_refused() -> None:
    rest = targets.private([ipaddress.ip_network("10.20.0.0/16")])
    assert not holds(rest, "10.20.255.255")
    assert holds(rest, "10.19.255.255")
    assert holds(rest, "10.21.0.0")
    assert holds(rest, "192.168.0.1")


def test_allowing_every_private_range_leaves_metadata_services_refused() -> None:
    allowed = [ipaddress.ip_network(text) for text in targets.PRIVATE]
    assert targets.private(allowed) == []
    assert holds(targets.never(), "100.100.100.200")
    assert holds(targets.never(), "fd00:ec2::254")


def test_ranges_do_not_overlap() -> None:
    both = [*targets.never(), *targets.private([ipaddress.ip_network("10.20.0.0/16")])]
    for networks in (targets.never(), targets.disjoint(both)):
        pairs = [(a, b) for a in networks for b in networks if a is not b and a.version == b.version]
        assert not any(a.overlaps(b) for a, b in pairs)


def test_the_range_that_means_all_of_ipv4_to_squid_is_not_in_its_acl() -> None:
    mapped = ipaddress.ip_network(targets.MAPPED)
    assert not any(network.version == 6 and network.overlaps(mapped) for network in targets.never())
