from ipaddress import ip_address
from pathlib import Path
from socket import if_nametoindex

import pytest

from router.links.model import Reason
from router.probes.portal import AGAIN, PAGE, login_page
from router.probes.portal_probe import announced_page
from tests.unit.router.enrolled import FIRST, Script, answering
from tests.unit.router.house import DSL, Plug, link

FOUND = b"HTTP/1.1 302 Found\r\nServer: x\r\nLocation: http://10.1.0.1:8080/login?from=a\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "page"),
    [
        (FOUND, "http://10.1.0.1:8080/login?from=a"),
        (
            b"HTTP/1.0 307 x\r\nlocation:https://portal.example/\r\n\r\nLocation: http://no.example/",
            "https://portal.example/",
        ),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>Welcome</html>", PAGE),
        (b"HTTP/1.1 511 Network Authentication Required\r\n\r\n", PAGE),
        (b"HTTP/1.1 302 Found\r\nLocation: /login\r\n\r\n", PAGE),
        (b"HTTP/1.1 302 Found\r\nLocation: http://\x1b[2Jevil/\r\n\r\n", PAGE),
        (b"HTTP/1.1 302 Found\r\nLocation: javascript:alert(1)\r\n\r\n", PAGE),
        (b"HTTP/1.1 302 Found\r\nLocation: http://" + b"a" * 600 + b"\r\n\r\n", PAGE),
        (b"SSH-2.0-OpenSSH_10.0\r\n", None),
        (b"", None),
    ],
)
def test_what_an_answer_tells(answer: bytes, page: str | None) -> None:
    assert login_page(answer) == page


SAID = "https://portal.example/api"


@pytest.mark.parametrize(
    ("answer", "page"), [(b"", SAID), (b"HTTP/1.1 200 OK\r\n\r\n", SAID), (FOUND, "http://10.1.0.1:8080/login?from=a")]
)
def test_what_a_network_says_by_dhcp_counts_unless_it_leads_elsewhere(answer: bytes, page: str) -> None:
    assert login_page(answer, SAID) == page


@pytest.mark.parametrize(
    ("note", "said"),
    [
        (f"# This is private data. Do not parse.\nDNS=10.0.0.1\nCAPTIVE_PORTAL={SAID}\nLLMNR=yes\n", SAID),
        ("DNS=10.0.0.1\nDOMAINS=CAPTIVE_PORTAL=http://no.example\n", None),
        ("CAPTIVE_PORTAL=urn:ietf:params:capport:unrestricted\n", None),
        ("CAPTIVE_PORTAL=javascript:alert(1)\n", None),
        ("CAPTIVE_PORTAL=http://\x1b[2Jevil/\n", None),
        (f"CAPTIVE_PORTAL=http://{'a' * 600}\n", None),
        ("", None),
    ],
)
def test_what_networkd_notes_of_it(note: str, said: str | None, tmp_path: Path) -> None:
    (tmp_path / str(if_nametoindex("lo"))).write_text(note)
    assert announced_page("lo", tmp_path) == said


def test_where_networkd_notes_nothing_or_the_interface_is_gone_nothing_was_said(tmp_path: Path) -> None:
    assert announced_page("lo", tmp_path) is None
    assert announced_page("no-such-link", tmp_path) is None


def silent(*links: str) -> Script:
    script = answering()
    script.failed(*links)
    return script


def test_a_link_by_which_the_gateway_answers_is_not_asked() -> None:
    assert silent().reconciler.portals.start_due(100.0) == []


def test_a_link_with_a_login_page_says_so_until_the_gateway_answers() -> None:
    script = silent("lte")
    reconciler = script.reconciler
    assert reconciler.portals.start_due(100.0) == ["lte"]
    assert reconciler.portals.paths["lte"] == ("usb0", ip_address("10.64.0.2"))
    reconciler.portals.on_response("lte", FOUND, None, 100.1)
    script.reconcile()
    assert link(reconciler, "lte").reason is Reason.CAPTIVE_PORTAL
    assert reconciler.portals.next_due == 100.1 + AGAIN
    script.answered("lte")
    assert link(reconciler, "lte").reason is Reason.NO_ANSWER and reconciler.portals.results == {}
    script.answered("lte", "lte")
    assert link(reconciler, "lte").reason is None


def test_silence_and_late_answers_tell_nothing() -> None:
    script = silent("lte")
    portals = script.reconciler.portals
    portals.on_response("lte", FOUND, None, 99.0)
    portals.start_due(100.0)
    portals.on_response("lte", b"", None, 105.0)
    assert portals.results == {}


def test_the_only_link_keeps_its_default_route_so_that_the_login_page_can_be_reached() -> None:
    script = silent("dsl", "lte")
    assert sorted(script.reconciler.portals.start_due(100.0)) == ["dsl", "lte"]
    script.reconciler.portals.on_response("lte", FOUND, None, 100.1)
    script.reconcile()
    assert [route for route in script.kernel.routes if route.table == 254 and route.metric == 2 and route.is_default]


@pytest.mark.parametrize(
    ("plug", "more"),
    [(Plug(DSL.interface, ("2001:db8:1::2/64",), ("2001:db8:1::1",)), ""), (DSL, "probe.captive = false\n")],
)
def test_a_link_without_ipv4_is_not_asked_and_none_where_that_is_switched_off(plug: Plug, more: str) -> None:
    script = Script(FIRST, more=more)
    script.now(plug)
    script.failed("dsl")
    assert script.reconciler.portals.start_due(100.0) == []
