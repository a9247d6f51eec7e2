import base64
import tomllib
from ipaddress import IPv4Address, IPv4Network, IPv6Network

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tributary.settings.errors import CommandError
from tributary.settings.files import check
from tributary.wireguard import addresses, keys
from tributary.wireguard.enrolment import Endpoint, Enrolment, text
from tributary.wireguard.interface import Interface, Peer, PeerStatus, configuration, peer_statuses

SECRET = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
OTHER = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="
GIVEN = {
    "gateway": "gateway.example.net",
    "public_key": OTHER,
    "secret": SECRET,
    "addresses": "10.84.0.16/28",
    "inside": "10.84.0.1",
}


@pytest.mark.parametrize(
    ("written", "host", "port"),
    [
        ("gateway.example.net", "gateway.example.net", 51840),
        ("gateway.example.net:7", "gateway.example.net", 7),
        ("203.0.113.5", "203.0.113.5", 51840),
        ("203.0.113.5:65535", "203.0.113.5", 65535),
        ("2001:db8::5", "2001:db8::5", 51840),
        ("[2001:db8::5]:7", "2001:db8::5", 7),
        ("[2001:db8::5]", "2001:db8::5", 51840),
    ],
)
def test_a_gateway_is_a_name_or_an_address(written: str, host: str, port: int) -> None:
    place = Endpoint.parse(written)
    assert (place.host, place.port) == (host, port)
    assert Endpoint.parse(str(place)) == place


@pytest.mark.parametrize(
    "written",
    ["", ":7", "a:0", "a:65536", "-a", "a..b", "a b", "[2001:db8::5", "[a]:7", "300.1.1.1", "a:b", "10.0.0.999"],
)
def test_what_is_no_place_is_refused(written: str) -> None:
    with pytest.raises(ValueError):
        Endpoint.parse(written)


@pytest.mark.parametrize("more", [{}, {"prefix": "2001:db8:1:1::/64"}, {"prefix": "fd12:3456:789a:1::/64"}])
def test_what_enrol_prints_is_what_a_router_reads(more: dict[str, str]) -> None:
    enrolment = check(GIVEN | more, Enrolment, "card")
    assert ("prefix" in text(enrolment)) == bool(more)
    assert check(tomllib.loads(text(enrolment))["enrolment"][0], Enrolment, "card") == enrolment


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("secret", "short"),
        ("public_key", SECRET[:-2]),
        ("addresses", "10.84.0.0/24"),
        ("inside", "gateway"),
        ("gateway", 5),
        *(("prefix", prefix) for prefix in ("2001:db8:1::/48", "2001:db8:1:1::1/64", "fe80::/64", "10.0.0.0/8")),
    ],
)
def test_a_wrong_key_is_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(CommandError, match=f"card: {key} = "):
        check({**GIVEN, key: value}, Enrolment, "card")


def test_a_secret_stands_in_no_printed_form() -> None:
    assert SECRET not in repr(check(GIVEN, Enrolment, "card"))


def test_keys_follow_from_the_secret_and_the_place_alone() -> None:
    made = [keys.private_key(SECRET, place) for place in addresses.SLOTS]
    assert len(set(made)) == 9
    # HKDF-SHA256 as the package cryptography computes it.
    assert made[0] == hkdf(SECRET, b"tributary tunnel 0")
    assert keys.private_key(OTHER, 0) != made[0]
    assert keys.new_secret() != keys.new_secret()


def hkdf(secret: str, info: bytes) -> str:
    derived = HKDF(SHA256(), length=32, salt=None, info=info).derive(base64.b64decode(secret))
    return base64.b64encode(derived).decode()


def test_each_router_has_a_block_and_each_tunnel_an_address_in_it() -> None:
    network = IPv4Network("10.84.0.0/16")
    assert addresses.gateway(network) == IPv4Address("10.84.0.1")
    assert addresses.max_routers(network) == 4095
    blocks = [addresses.block_of(network, number) for number in range(1, 4096)]
    assert len(set(blocks)) == 4095
    assert all(each.subnet_of(network) and addresses.gateway(network) not in each for each in blocks)
    used = [addresses.tunnel_address(blocks[0], place) for place in addresses.SLOTS]
    assert used[0] == IPv4Address("10.84.0.17") and used[-1] == IPv4Address("10.84.0.25")
    for number in (0, 4096):
        with pytest.raises(ValueError):
            addresses.block_of(network, number)


def test_each_router_s_lan_has_a_prefix_as_long_as_there_are_any() -> None:
    network = IPv6Network("2001:db8:1:ff00::/56")
    assert addresses.prefix_of(network, 1) == IPv6Network("2001:db8:1:ff01::/64")
    assert addresses.prefix_of(network, 255) == IPv6Network("2001:db8:1:ffff::/64")
    assert addresses.prefix_of(network, 256) is None
    assert addresses.prefix_of(IPv6Network("2001:db8:1::/48"), 4095) == IPv6Network("2001:db8:1:fff::/64")


def test_a_configuration_is_as_wg_setconf_reads_it() -> None:
    router = Peer(OTHER, (IPv4Network("10.84.0.17/32"), IPv4Network("10.84.0.18/32")))
    gateway = Peer(OTHER, (IPv4Network("0.0.0.0/0"),), "203.0.113.5:51840", 20)
    assert configuration(Interface(SECRET, (router,), port=51840)).splitlines() == [
        "[Interface]",
        f"PrivateKey = {SECRET}",
        "ListenPort = 51840",
        "FwMark = off",
        "[Peer]",
        f"PublicKey = {OTHER}",
        "AllowedIPs = 10.84.0.17/32, 10.84.0.18/32",
    ]
    assert configuration(Interface(SECRET, (gateway,), mark=0x8401)).splitlines()[2:] == [
        "FwMark = 0x8401",
        "[Peer]",
        f"PublicKey = {OTHER}",
        "AllowedIPs = 0.0.0.0/0",
        "Endpoint = 203.0.113.5:51840",
        "PersistentKeepalive = 20",
    ]


def test_peers_are_read_as_wg_show_dumps_them() -> None:
    dump = (
        f"{SECRET}\t{OTHER}\t51840\toff\n"
        f"{OTHER}\t(none)\t(none)\t(none)\t0\t0\t0\toff\n"
        f"{SECRET}\t(none)\t203.0.113.9:4000\t10.84.0.18/32,2001:db8:1:1::/64\t1790000000\t1234\t99\t20\n"
    )
    allowed = (IPv4Network("10.84.0.18/32"), IPv6Network("2001:db8:1:1::/64"))
    assert peer_statuses(dump) == [
        PeerStatus(OTHER, None, None, 0, 0),
        PeerStatus(SECRET, "203.0.113.9:4000", 1790000000.0, 1234, 99, allowed),
    ]
