from ipaddress import ip_address

import pytest

from tributary.settings.hosts import Target, host_and_port
from tributary.settings.privacy import HIDDEN, Privacy, shortened


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("a.example", "a.example", 7),
        ("a.example:65535", "a.example", 65535),
        ("192.0.2.1", "192.0.2.1", 7),
        ("192.0.2.1:80", "192.0.2.1", 80),
        ("2001:db8::0:1", "2001:db8::1", 7),
        ("[2001:db8::1]", "2001:db8::1", 7),
        ("[2001:db8::1]:80", "2001:db8::1", 80),
    ],
)
def test_a_host_and_its_port_are_taken_apart(text: str, host: str, port: int) -> None:
    assert host_and_port(text, 7) == (host, port)


@pytest.mark.parametrize(
    "text",
    ["", ":80", "a.example:", "a.example:0", "a.example:65536", "a:b:80", "[a.example]:80", "[192.0.2.1]:80", "a:٣"],
)
def test_what_is_no_host_and_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        host_and_port(text, 7)


def test_without_a_usual_port_one_has_to_stand_there_and_a_target_has_it_unless_it_names_one() -> None:
    assert host_and_port("192.0.2.1:80") == ("192.0.2.1", 80)
    for text in ("192.0.2.1", "2001:db8::1", "[2001:db8::1]", "a.example"):
        with pytest.raises(ValueError):
            host_and_port(text)
    assert Target.parse("2001:db8::1", 80) == Target(ip_address("2001:db8::1"), 80)


@pytest.mark.parametrize("text", ["192.0.2.1:80", "[2001:db8::1]:80"])
def test_a_target_reads_what_it_writes(text: str) -> None:
    assert str(Target.parse(text)) == text


@pytest.mark.parametrize("text", ["a.example", "127.0.0.1", "[::1]:80", "224.0.0.1", "0.0.0.0", "fe80::1%eth0"])
def test_what_no_other_host_may_have_is_no_target(text: str) -> None:
    with pytest.raises(ValueError):
        Target.parse(text, 80)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.77", "192.0.2.0"),
        ("2001:db8:1:2::3", "2001:db8:1::"),
        ("::ffff:192.0.2.77", "::"),
        ("fe80::1%eth0", "fe80::"),
        ("no address", HIDDEN),
    ],
)
def test_a_network_or_nothing_is_shown(address: str, network: str) -> None:
    shown: dict[Privacy, str] = {"full": address, "network": network, "none": HIDDEN}
    assert {privacy: shortened(address, privacy) for privacy in shown} == shown
