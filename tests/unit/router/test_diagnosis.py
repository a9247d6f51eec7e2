"""What people are told of links and gateways, and the codes that programs get."""

from dataclasses import replace
from typing import Any

import pytest

from router.diagnosis import DiagnosisCode, GatewayFacts, LinkFacts, of_gateway, of_link
from router.links.model import Reason
from router.probes.mptcp import Verdict
from tributary.settings.links import Use


@pytest.mark.parametrize(
    ("facts", "cause", "part"),
    [
        (LinkFacts("lte", Reason.NO_INTERFACE), DiagnosisCode.NO_INTERFACE, "the rule of [wan.lte]"),
        (LinkFacts("lte", Reason.SWITCHED_OFF, "usb0"), DiagnosisCode.SWITCHED_OFF, "ip link set usb0 up"),
        (LinkFacts("dsl", Reason.NO_CARRIER, "eth0"), DiagnosisCode.NO_CARRIER, "Check the cable"),
        (LinkFacts("dsl", Reason.NO_ADDRESS, "eth0"), DiagnosisCode.NO_ADDRESS, "dsl got no address from its modem"),
        (LinkFacts("dsl", Reason.SAME_ADDRESS, "eth0"), DiagnosisCode.SAME_ADDRESS, "another network"),
        (LinkFacts("dsl", Reason.NO_GATEWAY, "eth0"), DiagnosisCode.NO_GATEWAY, "no way to the Internet"),
        (
            LinkFacts(
                "lte", Reason.NO_ANSWER, "usb0", target="The gateway", is_answered=False, is_target_answering=True
            ),
            DiagnosisCode.NO_ANSWER,
            "The gateway does not answer by lte, but does by another link",
        ),
        (
            LinkFacts(
                "lte",
                Reason.NO_ANSWER,
                target="The gateway",
                is_answered=False,
                is_target_answering=True,
                is_gateway_reachable=True,
                tunnel=51840,
            ),
            DiagnosisCode.TUNNEL_BLOCKED,
            "the provider of lte, or its modem, stops UDP to port 51840",
        ),
        (
            LinkFacts("lte", None, target="The gateway", is_answered=False, is_gateway_reachable=True, tunnel=51840),
            DiagnosisCode.TUNNEL_BLOCKED,
            "it may not know this box any more",
        ),
        (
            LinkFacts("lte", None, target="The gateway", is_answered=False, is_gateway_reachable=False, tunnel=51840),
            DiagnosisCode.NO_ANSWER_ANYWHERE,
            "it is away, or all links are",
        ),
        (
            LinkFacts(
                "hotel",
                Reason.CAPTIVE_PORTAL,
                target="The gateway",
                is_answered=False,
                login_page="http://portal.example/?x",
            ),
            DiagnosisCode.LOGIN_PAGE,
            "Open http://portal.example/?x in a browser",
        ),
        (LinkFacts("dsl", None, "eth0"), DiagnosisCode.NOT_PROBED, "Nobody asks whether it leads anywhere"),
        (LinkFacts("dsl", None, "eth0", target="The gateway"), DiagnosisCode.PROBING, "is being tried"),
        (
            LinkFacts("dsl", None, "eth0", target="The gateway", is_answered=False, is_target_answering=True),
            DiagnosisCode.PROBING,
            "is being tried",
        ),
        (
            LinkFacts("dsl", None, "eth0", target="203.0.113.5:5124", is_answered=False),
            DiagnosisCode.NO_ANSWER_ANYWHERE,
            "203.0.113.5:5124 does not answer by dsl, nor by any other link",
        ),
        (
            LinkFacts("dsl", None, "eth0", target="The gateway", is_answered=True, is_target_answering=True),
            DiagnosisCode.WORKS,
            "dsl works.",
        ),
        (
            LinkFacts(
                "lte", None, "usb0", use=Use.BACKUP, target="The gateway", is_answered=True, is_target_answering=True
            ),
            DiagnosisCode.STANDBY,
            "when no other link works",
        ),
        (
            LinkFacts(
                "lte",
                None,
                use=Use.OVERFLOW,
                standby=True,
                target="The gateway",
                is_answered=True,
                is_target_answering=True,
            ),
            DiagnosisCode.STANDBY,
            "when the links before it are full",
        ),
        (
            LinkFacts("lte", "outside of its hours, used again at 07:00", "usb0"),
            DiagnosisCode.BY_SETTINGS,
            "as its settings say: outside of its hours, used again at 07:00.",
        ),
    ],
)
def test_the_first_thing_said_of_a_link_is_how_it_stands(facts: LinkFacts, cause: DiagnosisCode, part: str) -> None:
    first = of_link(facts)[0]
    assert first.code is cause
    assert part in first.text


WORKS = LinkFacts("dsl", None, "eth0", target="The gateway", is_answered=True, is_target_answering=True, tunnel=51840)


@pytest.mark.parametrize(
    ("more", "cause", "part"),
    [
        ({"mtu": 1492}, DiagnosisCode.SMALL_PACKETS, "dsl's MTU is 1492 (PPPoE, as usual with DSL)"),
        (
            {"mtu": 1430},
            DiagnosisCode.SMALL_PACKETS,
            "dsl's MTU is 1430: larger packets do not pass. The tunnel's packets are",
        ),
        ({"mtu": 1430, "tunnel": None}, DiagnosisCode.SMALL_PACKETS, "give its interface that MTU"),
        ({"mtu": 1500}, None, ""),
        ({"mtu": 1492, "interface_mtu": 1492}, None, ""),
        ({"inside": Verdict.MULTIPATH, "outside": Verdict.MULTIPATH}, None, ""),
        ({"inside": Verdict.PLAIN}, DiagnosisCode.GATEWAY_WITHOUT_MULTIPATH, "speaks no Multipath TCP to dsl"),
        ({"outside": Verdict.DROPPED}, DiagnosisCode.MULTIPATH_DROPPED, "Inside the tunnel Multipath TCP passes"),
        (
            {"outside": Verdict.PLAIN, "others": (Verdict.MULTIPATH,)},
            DiagnosisCode.MULTIPATH_STRIPPED,
            "dsl strips Multipath TCP from connections. Inside the tunnel Multipath TCP passes all the same",
        ),
        (
            {"outside": Verdict.PLAIN, "others": (Verdict.MULTIPATH,), "tunnel": None},
            DiagnosisCode.MULTIPATH_STRIPPED,
            "So dsl is not used together with the other links.",
        ),
        (
            {"outside": Verdict.PLAIN, "others": (Verdict.PLAIN, Verdict.DROPPED)},
            DiagnosisCode.MULTIPATH_UNKNOWN_OUTSIDE,
            "with it by no link",
        ),
    ],
)
def test_what_does_not_keep_a_link_from_working_is_said_after_that(
    more: dict[str, Any], cause: DiagnosisCode | None, part: str
) -> None:
    first, *others = of_link(replace(WORKS, **more))
    assert first.code is DiagnosisCode.WORKS
    assert [each.code for each in others] == ([cause] if cause else [])
    assert part in "".join(each.text for each in others)


def test_of_a_link_that_is_down_only_the_reason_is_said() -> None:
    facts = replace(WORKS, down=Reason.NO_CARRIER, mtu=1492, outside=Verdict.DROPPED, inside=Verdict.PLAIN)
    assert [each.code for each in of_link(facts)] == [DiagnosisCode.NO_CARRIER]


def test_each_reason_why_a_link_is_down_has_a_cause_of_its_own() -> None:
    causes = [of_link(LinkFacts("dsl", reason, "eth0", target="The gateway"))[0].code for reason in Reason]
    assert len(set(causes)) == len(Reason)


@pytest.mark.parametrize(
    ("order", "is_found", "answers", "causes", "part"),
    [
        (GatewayFacts("gw:51840"), False, None, [DiagnosisCode.GATEWAY_NAME_NOT_FOUND], "name gw:51840 is not found"),
        (GatewayFacts("gw:51840"), True, None, [DiagnosisCode.PROBING], "is being tried"),
        (GatewayFacts("gw:51840"), True, False, [DiagnosisCode.NO_ANSWER_ANYWHERE], "leaves by the links themselves"),
        (GatewayFacts("gw:51840"), True, True, [DiagnosisCode.WORKS], "The gateway gw:51840 answers."),
        (
            GatewayFacts("b:1", "a:1"),
            True,
            True,
            [DiagnosisCode.WORKS, DiagnosisCode.LATER_GATEWAY],
            "the place of a:1, which does not",
        ),
        (
            GatewayFacts("b:1", "a:1", 40.2, 300.0),
            True,
            True,
            [DiagnosisCode.WORKS, DiagnosisCode.EARLIER_GATEWAY_ANSWERS],
            "which has answered again for 40 s. After 300 s everything goes there; connections that run then are cut",
        ),
    ],
)
def test_what_is_said_of_gateways(
    order: GatewayFacts, is_found: bool, answers: bool | None, causes: list[DiagnosisCode], part: str
) -> None:
    said = list(of_gateway(order, is_found=is_found, answers=answers))
    assert [each.code for each in said] == causes
    assert part in " ".join(each.text for each in said)
