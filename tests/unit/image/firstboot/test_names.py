"""Who is asked for names, and by whom: systemd-resolved's file, dnsmasq's, and those of the links."""

import pytest

from tests.unit.image.firstboot.cards import ENROLMENT, HOME, LINKS, LOGIN, MODEM
from tests.unit.image.firstboot.systems import texts

QUAD9 = '["9.9.9.9#dns.quad9.net", "2620:fe::fe#dns.quad9.net"]'
OVER_TLS = ["DNS=9.9.9.9#dns.quad9.net 2620:fe::fe#dns.quad9.net", "DNSOverTLS=yes", "Domains=~."]
GATEWAY, HERE = "server=10.84.0.1", "server=127.0.0.53"
SILENT = ["[Resolve]", "LLMNR=no", "MulticastDNS=no"]
ASKED_OF_LINKS = "Domains=~gateway.example.net ~debian.pool.ntp.org"


@pytest.mark.parametrize(
    ("card", "servers", "resolved", "of_links"),
    [
        (LINKS + ENROLMENT, [GATEWAY], ["DNS=10.84.0.1", "Domains=~."], ASKED_OF_LINKS),
        (f'{LINKS}dns = "nobody"\n{ENROLMENT}', [GATEWAY], ["DNS=10.84.0.1", "Domains=~."], ASKED_OF_LINKS),
        (f"{LINKS}dns = {QUAD9}\n{ENROLMENT}", [GATEWAY, HERE], OVER_TLS, ASKED_OF_LINKS),
        (f'{LINKS}dns = "links"\n{ENROLMENT}', [GATEWAY, HERE], [], None),
        (HOME, [HERE], [], None),
        (f"{HOME}dns = {QUAD9}\n", [HERE], OVER_TLS, "Domains=~debian.pool.ntp.org"),
        (
            LINKS + ENROLMENT.replace("gateway.example.net", "203.0.113.5"),
            [GATEWAY],
            ["DNS=10.84.0.1", "Domains=~."],
            "Domains=~debian.pool.ntp.org",
        ),
    ],
)
def test_no_name_is_asked_in_clear_unless_the_card_says_so(
    card: str, servers: list[str], resolved: list[str], of_links: str | None
) -> None:
    files = texts(card)
    lan = files["/etc/dnsmasq.d/tributary-lan.conf"].splitlines()
    assert [line for line in lan if line.startswith("server=")] == servers
    assert files["/etc/systemd/resolved.conf.d/50-tributary.conf"].splitlines() == [*SILENT, *resolved]
    links = [text.splitlines() for path, text in files.items() if path.endswith(".network") and "lan" not in path]
    assert links
    for lines in links:
        domains = [line for line in lines if line.startswith(("Domains=", "DNSDefaultRoute=", "DNSOverTLS="))]
        assert domains == ([of_links, "DNSDefaultRoute=no", "DNSOverTLS=no"] if of_links else [])


DIALLED = LINKS.replace("wlan0", "end1") + LOGIN + MODEM
SCRIPT, CONNECTION = (
    "/etc/ppp/ip-up.d/tributary-dns",
    "/etc/NetworkManager/system-connections/tributary-lte.nmconnection",
)


@pytest.mark.parametrize("dns", ["", 'dns = "nobody"\n', f"dns = {QUAD9}\n"])
def test_links_that_are_dialled_have_their_servers_asked_for_no_more_than_others(dns: str) -> None:
    files = texts(DIALLED.replace("[wan.dsl.pppoe]", f"{dns}[wan.dsl.pppoe]", 1) + ENROLMENT)
    assert "Domains=~." in files["/etc/systemd/resolved.conf.d/50-tributary.conf"].splitlines()
    said = [line.split() for line in files[SCRIPT].splitlines() if line.startswith("    resolvectl")]
    assert [(words[1], words[3:]) for words in said] == [
        ("domain", ["'~gateway.example.net'", "'~debian.pool.ntp.org'"]),
        ("default-route", ["no"]),
        ("dnsovertls", ["no"]),
        ("dns", ["$DNS1", "$DNS2"]),
    ]
    connection, _, modem = files[CONNECTION].partition("\n[gsm]\n")
    search = "method=auto\nroute-metric=1040\ndns-search=~gateway.example.net;~debian.pool.ntp.org;\n"
    assert modem.endswith(f"\n[ipv4]\n{search}\n[ipv6]\n{search}") and "\ndns-over-tls=0\n" in connection


def test_links_that_are_dialled_are_asked_for_everything_where_the_card_says_so() -> None:
    files = texts(DIALLED.replace("[wan.dsl.pppoe]", 'dns = "links"\n[wan.dsl.pppoe]', 1) + ENROLMENT)
    assert "Domains" not in files["/etc/systemd/resolved.conf.d/50-tributary.conf"]
    assert files[SCRIPT].count("resolvectl") == 1
    assert "dns-search" not in files[CONNECTION]
