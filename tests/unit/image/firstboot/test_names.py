"""Who is asked for names, and by whom: systemd-resolved's file, dnsmasq's, and those of the links."""

import pytest

from image.firstboot.actions import WriteFile
from image.firstboot.plan import plan
from image.firstboot.reading import read
from image.firstboot.settings import Role
from tests.unit.image.firstboot.systems import facts
from tests.unit.image.firstboot.test_reading import CPE, ENROLMENT, LINKS

QUAD9 = '["9.9.9.9#dns.quad9.net", "2620:fe::fe#dns.quad9.net"]'
OVER_TLS = ["DNS=9.9.9.9#dns.quad9.net 2620:fe::fe#dns.quad9.net", "DNSOverTLS=yes", "Domains=~."]
GATEWAY, HERE = "server=10.84.0.1", "server=127.0.0.53"
ASKED_OF_LINKS = "Domains=~gateway.example.net ~debian.pool.ntp.org"


def written(card: str) -> dict[str, str]:
    return {
        each.path: each.text for each in plan(read(card.encode(), Role.CPE), facts(Role.CPE)) if type(each) is WriteFile
    }


@pytest.mark.parametrize(
    ("card", "servers", "resolved", "of_links"),
    [
        (LINKS + ENROLMENT, [GATEWAY], ["DNS=10.84.0.1", "Domains=~."], ASKED_OF_LINKS),
        (f'{LINKS}dns = "nobody"\n{ENROLMENT}', [GATEWAY], ["DNS=10.84.0.1", "Domains=~."], ASKED_OF_LINKS),
        (f"{LINKS}dns = {QUAD9}\n{ENROLMENT}", [GATEWAY, HERE], OVER_TLS, ASKED_OF_LINKS),
        (f'{LINKS}dns = "links"\n{ENROLMENT}', [GATEWAY, HERE], [], None),
        (CPE, [HERE], [], None),
        (f"{CPE}dns = {QUAD9}\n", [HERE], OVER_TLS, "Domains=~debian.pool.ntp.org"),
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
    files = written(card)
    lan = files["/etc/dnsmasq.d/tributary-lan.conf"].splitlines()
    assert [line for line in lan if line.startswith("server=")] == servers
    assert files["/etc/systemd/resolved.conf.d/50-tributary.conf"].splitlines() == ["[Resolve]", *resolved]
    links = [text.splitlines() for path, text in files.items() if path.endswith(".network") and "lan" not in path]
    assert links
    for lines in links:
        domains = [line for line in lines if line.startswith(("Domains=", "DNSDefaultRoute=", "DNSOverTLS="))]
        assert domains == ([of_links, "DNSDefaultRoute=no", "DNSOverTLS=no"] if of_links else [])
