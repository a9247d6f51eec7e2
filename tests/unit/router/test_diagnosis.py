from dataclasses import replace
from typing import Any

import pytest

from router.diagnosis import Code, LinkFacts, of_gateway, of_link
from router.links.model import Reason
from router.probes.mptcp import Verdict
from tributary.settings.links import Use

WORKS = LinkFacts("dsl", None, "eth0", target="The gateway", is_answered=True, is_target_answering=True, tunnel=51840)
SILENT = LinkFacts("lte", None, "usb0", target="The gateway", is_answered=False, tunnel=51840)
LATE = "outside of its hours, used again at 07:00"
STRIPPED = {"outside": Verdict.PLAIN, "others": (Verdict.MULTIPATH,)}
OUT = replace(SILENT, down=Reason.NO_ANSWER, is_target_answering=True)


@pytest.mark.parametrize(
    ("facts", "cause", "part"),
    [
        (LinkFacts("lte", Reason.NO_INTERFACE), Code.NO_INTERFACE, "the rule of [wan.lte]"),
        (LinkFacts("lte", Reason.SWITCHED_OFF, "usb0"), Code.SWITCHED_OFF, "ip link set usb0 up"),
        (LinkFacts("dsl", Reason.NO_INTERFACE), Code.NO_INTERFACE, "its provider has refused the login (PPPoE)"),
        (LinkFacts("dsl", Reason.NO_CARRIER, "eth0"), Code.NO_CARRIER, "Check the cable"),
        (LinkFacts("cafe", Reason.NO_CARRIER, "wlan0"), Code.NO_CARRIER, "by radio, the signal, and the passphrase"),
        (LinkFacts("dsl", Reason.NO_ADDRESS, "eth0"), Code.NO_ADDRESS, "dsl got no address from its modem"),
        (LinkFacts("dsl", Reason.SAME_ADDRESS, "eth0"), Code.SAME_ADDRESS, "another network"),
        (LinkFacts("dsl", Reason.NO_GATEWAY, "eth0"), Code.NO_GATEWAY, "no way to the Internet"),
        (OUT, Code.NO_ANSWER, "The gateway does not answer by lte, but does by another link"),
        (
            replace(OUT, is_gateway_reachable=True),
            Code.TUNNEL_BLOCKED,
            "the provider of lte, or its modem, stops UDP to port 51840",
        ),
        (replace(SILENT, is_gateway_reachable=True), Code.TUNNEL_BLOCKED, "it may not know this box any more"),
        (replace(SILENT, is_gateway_reachable=False), Code.NO_ANSWER_ANYWHERE, "it is away, or all links are"),
        (replace(OUT, lacks=4), Code.OTHER_VERSION, "lte has no IPv4, and the gateway nothing else"),
        (replace(WORKS, target=None, is_answered=None, lacks=6), Code.OTHER_VERSION, "an address of IPv4"),
        (replace(SILENT, down=Reason.NO_CARRIER, lacks=4), Code.NO_CARRIER, "Check the cable"),
        (
            replace(SILENT, down=Reason.CAPTIVE_PORTAL, login_page="http://portal.example/?x"),
            Code.LOGIN_PAGE,
            "Open http://portal.example/?x in a browser",
        ),
        (LinkFacts("dsl", None, "eth0"), Code.NOT_PROBED, "Nobody asks whether it leads anywhere"),
        (LinkFacts("dsl", None, "eth0", target="The gateway"), Code.PROBING, "is being tried"),
        (replace(SILENT, is_target_answering=True), Code.PROBING, "is being tried"),
        (
            replace(SILENT, target="203.0.113.5:5124"),
            Code.NO_ANSWER_ANYWHERE,
            "203.0.113.5:5124 does not answer by lte, nor by any other link",
        ),
        (WORKS, Code.WORKS, "dsl works."),
        (replace(WORKS, use=Use.BACKUP), Code.STANDBY, "when no other link works"),
        (replace(WORKS, use=Use.OVERFLOW, standby=True), Code.STANDBY, "when the links before it are full"),
        (LinkFacts("lte", LATE, "usb0"), Code.BY_SETTINGS, f"as its settings say: {LATE}."),
    ],
)
def test_the_first_thing_said_of_a_link_is_how_it_stands(facts: LinkFacts, cause: Code, part: str) -> None:
    first = of_link(facts)[0]
    assert first.code is cause
    assert part in first.text


@pytest.mark.parametrize(
    ("more", "cause", "part"),
    [
        ({"mtu": 1492}, Code.SMALL_PACKETS, "dsl's MTU is 1492 (PPPoE, as usual with DSL)"),
        ({"mtu": 1430}, Code.SMALL_PACKETS, "dsl's MTU is 1430: larger packets do not pass. The tunnel's packets are"),
        ({"mtu": 1430, "tunnel": None}, Code.SMALL_PACKETS, "give its interface that MTU"),
        ({"mtu": 1500}, None, ""),
        ({"mtu": 1492, "interface_mtu": 1492}, None, ""),
        ({"inside": Verdict.MULTIPATH, "outside": Verdict.MULTIPATH}, None, ""),
        ({"inside": Verdict.PLAIN}, Code.GATEWAY_WITHOUT_MULTIPATH, "speaks no Multipath TCP to dsl"),
        ({"outside": Verdict.DROPPED}, Code.MULTIPATH_DROPPED, "Inside the tunnel Multipath TCP passes"),
        (
            STRIPPED,
            Code.MULTIPATH_STRIPPED,
            "dsl strips Multipath TCP from connections. Inside the tunnel Multipath TCP passes all the same",
        ),
        (STRIPPED | {"tunnel": None}, Code.MULTIPATH_STRIPPED, "So dsl is not used together with the other links."),
        (
            {"outside": Verdict.PLAIN, "others": (Verdict.PLAIN, Verdict.DROPPED)},
            Code.MULTIPATH_UNKNOWN_OUTSIDE,
            "with it by no link",
        ),
    ],
)
def test_what_keeps_no_link_from_working_is_said_after_that(
    more: dict[str, Any], cause: Code | None, part: str
) -> None:
    first, *others = of_link(replace(WORKS, **more))
    assert first.code is Code.WORKS
    assert [each.code for each in others] == ([cause] if cause else [])
    assert part in "".join(each.text for each in others)


def test_of_a_link_that_is_down_only_the_reason_is_said() -> None:
    facts = replace(WORKS, down=Reason.NO_CARRIER, mtu=1492, outside=Verdict.DROPPED, inside=Verdict.PLAIN)
    assert [each.code for each in of_link(facts)] == [Code.NO_CARRIER]


def test_each_reason_why_a_link_is_down_has_a_cause_of_its_own() -> None:
    causes = [of_link(LinkFacts("dsl", reason, "eth0", target="The gateway"))[0].code for reason in Reason]
    assert len(set(causes)) == len(Reason)


@pytest.mark.parametrize(
    ("order", "causes", "part"),
    [
        (("gw:51840", False, None), [Code.GATEWAY_NAME_NOT_FOUND], "name gw:51840 is not found"),
        (("gw:51840", True, None), [Code.PROBING], "is being tried"),
        (("gw:51840", True, False), [Code.NO_ANSWER_ANYWHERE], "leaves by the links themselves"),
        (("gw:51840", True, True), [Code.WORKS], "The gateway gw:51840 answers."),
        (("b:1", True, True, "a:1"), [Code.WORKS, Code.LATER_GATEWAY], "the place of a:1, which does not"),
        (
            ("b:1", True, True, "a:1", 40.2, 300.0),
            [Code.WORKS, Code.EARLIER_GATEWAY_ANSWERS],
            "which has answered again for 40 s. After 300 s everything goes there; connections that run then are cut",
        ),
    ],
)
def test_what_is_said_of_gateways(order: tuple[Any, ...], causes: list[Code], part: str) -> None:
    said = list(of_gateway(*order))
    assert [each.code for each in said] == causes
    assert part in " ".join(each.text for each in said)
