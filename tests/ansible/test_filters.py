import tomllib
from typing import Any

import pytest

from tests.ansible.playbooks import ANSIBLE, load

filters = load(ANSIBLE / "filter_plugins/tributary_filters.py")
NAMES = ["tributary-common", "tributary-squid"]


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"port": 3128, "cache": "off", "rates": [1.5, 2], "on": True, "off": False},
        {"client_networks": ["10.0.0.0/8", "fd00::/8"], "none": []},
        {"text": 'a "quoted" \\ line\nbreak, tab\t, bell\x07, del\x7f, umlaut ü, 𝄞'},
        {"paths": {"dsl": {"interface": "eth1", "clients": ["10.0.0.0/10"]}, "a b": {"interface": "eth2"}}},
        {"rules": [{"name": "a", "ports": [1, 2]}, {"name": "b", "deep": {"er": {"x": 1}}}], "plain": 1},
        {"listen": [{"users": {"anna": "pa'ss\"word"}}], "table": {}, "after": "a table"},
    ],
)
def test_what_is_written_as_toml_reads_back_as_it_was(document: dict[str, Any]) -> None:
    assert tomllib.loads(filters.to_toml(document)) == document


def test_a_key_that_is_null_is_left_out_also_in_tables() -> None:
    document = {"a": None, "gateway": {"address": None, "retry": "10s"}, "listen": [{"name": None, "kind": "http"}]}
    assert tomllib.loads(filters.to_toml(document)) == {"gateway": {"retry": "10s"}, "listen": [{"kind": "http"}]}


def test_networks_are_sorted_out_by_version() -> None:
    networks = ["10.0.0.0/8", "2001:db8::/32", "192.0.2.1"]
    assert filters.of_version(networks, 4) == ["10.0.0.0/8", "192.0.2.1"]
    assert filters.of_version(networks, 6) == ["2001:db8::/32"]


def test_what_is_no_network_is_found() -> None:
    wrong = ["10.0.0.1/8", "10.0.0.0/33", "everybody", "", "eth0"]
    assert filters.not_networks(["10.0.0.0/8", *wrong, "2001:db8::1"]) == wrong


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("192.0.2.9", True),
        ("192.0.3.9", False),
        ("::ffff:192.0.2.9", True),
        ("2001:db8::1", True),
        ("fe80::1%eth0", False),
    ],
)
def test_where_somebody_comes_from_is_compared_with_networks_of_both_versions(address: str, inside: bool) -> None:
    assert filters.covers(["192.0.2.0/24", "2001:db8::/32"], address) is inside


def test_ports_are_those_of_the_listeners() -> None:
    listeners = [
        {"kind": "http", "address": "[::]:3129"},
        {"kind": "socks5", "address": "0.0.0.0:1080"},
        {"kind": "http", "address": "127.0.0.1:3129"},
    ]
    assert filters.listening_ports(listeners) == [1080, 3129]
    assert filters.listening_ports(listeners, "http") == [3129]


def test_listeners_are_reached_from_their_own_host() -> None:
    listeners = [
        *filters.as_listeners(["0.0.0.0"], 3128),
        *filters.as_listeners(["fd00::1", "10.0.0.1"], 3129),
        {"kind": "socks5", "address": "[::]:1080"},
    ]
    assert filters.places(listeners) == ["10.0.0.1:3129", "127.0.0.1:1080", "127.0.0.1:3128", "[fd00::1]:3129"]
    assert "127.0.0.1:1080" not in filters.places(listeners, "http")


def test_a_hand_offs_back_ends_are_at_the_ports_of_all() -> None:
    ports = {"fronts": 7401, "hand_off": 7400, "http": 80}
    (given,) = filters.as_back_ends([{"name": "a", "address": "192.0.2.2", "device": "eth1"}], ports)
    places = {"fronts": "192.0.2.2:7401", "hand_off": "192.0.2.2:7400", "http": "192.0.2.2:80"}
    assert given == {"name": "a"} | places
    assert filters.as_handoff_listeners(["192.0.2.1:80"]) == [{"kind": "handoff", "address": "192.0.2.1:80"}]


def files(*versions: str, suite: str = "deb13", architecture: str = "amd64") -> list[str]:
    return [
        f"/packages/{name}_{version}~{suite}_{kind}.deb"
        for version in versions
        for name, kind in (("tributary-common", architecture), ("tributary-squid", "all"))
    ]


def test_the_only_version_is_taken_without_being_named() -> None:
    found = filters.packages_at([*files("0.1.0-1"), "/packages/other.deb"], NAMES, "", "deb13", "amd64")
    assert found == {
        "version": "0.1.0-1~deb13",
        "files": [
            "/packages/tributary-common_0.1.0-1~deb13_amd64.deb",
            "/packages/tributary-squid_0.1.0-1~deb13_all.deb",
        ],
    }


def refused(version: str, *there: str) -> str:
    found: dict[str, str] = filters.packages_at(there, NAMES, version, "deb13", "amd64")
    return found["refused"]


def test_of_several_versions_one_has_to_be_named() -> None:
    there = files("0.1.0-1", "0.2.0-1")
    assert refused("", *there).endswith("versions of all packages for deb13 amd64: 0.1.0-1, 0.2.0-1")
    assert filters.packages_at(there, NAMES, "0.1.0-1", "deb13", "amd64")["version"] == "0.1.0-1~deb13"


def test_packages_of_other_releases_and_processors_do_not_count() -> None:
    there = files("0.1.0-1", suite="deb12") + files("0.1.0-1", architecture="arm64")
    assert refused("", *there).endswith("versions of all packages for deb13 amd64: none")
    assert len(filters.packages_at(there, NAMES, "", "deb13", "arm64")["files"]) == 2


def test_a_version_that_is_not_there_is_refused_with_those_that_are() -> None:
    said = "no package tributary-common 0.3.0-1~deb13 for amd64: versions of all packages: 0.1.0-1"
    assert refused("0.3.0-1", *files("0.1.0-1")) == said


def test_a_version_that_lacks_a_package_is_not_taken() -> None:
    there = [*files("0.1.0-1"), "/packages/tributary-common_0.2.0-1~deb13_amd64.deb"]
    assert filters.packages_at(there, NAMES, "", "deb13", "amd64")["version"] == "0.1.0-1~deb13"
    assert refused("0.2.0-1", *there).startswith("no package tributary-squid 0.2.0-1~deb13 for amd64")
