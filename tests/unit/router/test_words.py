"""What people are told of links and gateways, and the codes that programs get."""

from dataclasses import replace
from typing import Any

import pytest

from router.links import Reason
from router.multipath import Verdict
from router.words import Cause, Facts, Order, of_gateway, of_link
from tributary.settings.links import Use


@pytest.mark.parametrize(
    ("facts", "cause", "part"),
    [
        (Facts("lte", Reason.NO_INTERFACE), Cause.NO_INTERFACE, "the rule of [wan.lte]"),
        (Facts("lte", Reason.SWITCHED_OFF, "usb0"), Cause.SWITCHED_OFF, "ip link set usb0 up"),
        (Facts("dsl", Reason.NO_CARRIER, "eth0"), Cause.NO_CARRIER, "Check the cable"),
        (Facts("dsl", Reason.NO_ADDRESS, "eth0"), Cause.NO_ADDRESS, "dsl got no address from its modem"),
        (Facts("dsl", Reason.SAME_ADDRESS, "eth0"), Cause.SAME_ADDRESS, "another network"),
        (Facts("dsl", Reason.NO_GATEWAY, "eth0"), Cause.NO_GATEWAY, "no way to the Internet"),
        (
            Facts("lte", Reason.NO_ANSWER, "usb0", target="The gateway", answers=False, target_answers=True),
            Cause.NO_ANSWER,
            "The gateway does not answer by lte, but does by another link",
        ),
        (
            Facts(
                "lte",
                Reason.NO_ANSWER,
                target="The gateway",
                answers=False,
                target_answers=True,
                reached=True,
                tunnel=51840,
            ),
            Cause.TUNNEL_BLOCKED,
            "the provider of lte, or its modem, stops UDP to port 51840",
        ),
        (
            Facts("lte", None, target="The gateway", answers=False, reached=True, tunnel=51840),
            Cause.TUNNEL_BLOCKED,
            "it may not know this box any more",
        ),
        (
            Facts("lte", None, target="The gateway", answers=False, reached=False, tunnel=51840),
            Cause.NO_ANSWER_ANYWHERE,
            "it is away, or all links are",
        ),
        (
            Facts("hotel", Reason.LOGIN, target="The gateway", answers=False, login="http://portal.example/?x"),
            Cause.LOGIN_PAGE,
            "Open http://portal.example/?x in a browser",
        ),
        (Facts("dsl", None, "eth0"), Cause.UNASKED, "Nobody asks whether it leads anywhere"),
        (Facts("dsl", None, "eth0", target="The gateway"), Cause.BEING_TRIED, "is being tried"),
        (
            Facts("dsl", None, "eth0", target="The gateway", answers=False, target_answers=True),
            Cause.BEING_TRIED,
            "is being tried",
        ),
        (
            Facts("dsl", None, "eth0", target="203.0.113.5:5124", answers=False),
            Cause.NO_ANSWER_ANYWHERE,
            "203.0.113.5:5124 does not answer by dsl, nor by any other link",
        ),
        (
            Facts("dsl", None, "eth0", target="The gateway", answers=True, target_answers=True),
            Cause.WORKS,
            "dsl works.",
        ),
        (
            Facts("lte", None, "usb0", use=Use.BACKUP, target="The gateway", answers=True, target_answers=True),
            Cause.WAITS,
            "when no other link works",
        ),
        (
            Facts("lte", None, use=Use.OVERFLOW, waits=True, target="The gateway", answers=True, target_answers=True),
            Cause.WAITS,
            "when the links before it are full",
        ),
        (
            Facts("lte", "outside of its hours, used again at 07:00", "usb0"),
            Cause.BY_SETTINGS,
            "as its settings say: outside of its hours, used again at 07:00.",
        ),
    ],
)
def test_the_first_thing_said_of_a_link_is_how_it_stands(facts: Facts, cause: Cause, part: str) -> None:
    first = of_link(facts)[0]
    assert first.cause is cause
    assert part in first.text


WORKS = Facts("dsl", None, "eth0", target="The gateway", answers=True, target_answers=True, tunnel=51840)


@pytest.mark.parametrize(
    ("more", "cause", "part"),
    [
        ({"packet": 1492}, Cause.SMALL_PACKETS, "dsl's MTU is 1492 (PPPoE, as usual with DSL)"),
        (
            {"packet": 1430},
            Cause.SMALL_PACKETS,
            "dsl's MTU is 1430: larger packets do not pass. The tunnel's packets are",
        ),
        ({"packet": 1430, "tunnel": None}, Cause.SMALL_PACKETS, "give its interface that MTU"),
        ({"packet": 1500}, None, ""),
        ({"packet": 1492, "interface_packet": 1492}, None, ""),
        ({"inside": Verdict.MULTIPATH, "outside": Verdict.MULTIPATH}, None, ""),
        ({"inside": Verdict.PLAIN}, Cause.GATEWAY_WITHOUT_MULTIPATH, "speaks no Multipath TCP to dsl"),
        ({"outside": Verdict.DROPPED}, Cause.MULTIPATH_DROPPED, "Inside the tunnel Multipath TCP passes"),
        (
            {"outside": Verdict.PLAIN, "others": (Verdict.MULTIPATH,)},
            Cause.MULTIPATH_STRIPPED,
            "dsl strips Multipath TCP from connections. Inside the tunnel Multipath TCP passes all the same",
        ),
        (
            {"outside": Verdict.PLAIN, "others": (Verdict.MULTIPATH,), "tunnel": None},
            Cause.MULTIPATH_STRIPPED,
            "So dsl is not used together with the other links.",
        ),
        (
            {"outside": Verdict.PLAIN, "others": (Verdict.PLAIN, Verdict.DROPPED)},
            Cause.MULTIPATH_UNKNOWN_OUTSIDE,
            "with it by no link",
        ),
    ],
)
def test_what_does_not_keep_a_link_from_working_is_said_after_that(
    more: dict[str, Any], cause: Cause | None, part: str
) -> None:
    first, *others = of_link(replace(WORKS, **more))
    assert first.cause is Cause.WORKS
    assert [each.cause for each in others] == ([cause] if cause else [])
    assert part in "".join(each.text for each in others)


def test_of_a_link_that_is_down_only_the_reason_is_said() -> None:
    facts = replace(WORKS, down=Reason.NO_CARRIER, packet=1492, outside=Verdict.DROPPED, inside=Verdict.PLAIN)
    assert [each.cause for each in of_link(facts)] == [Cause.NO_CARRIER]


def test_each_reason_why_a_link_is_down_has_a_cause_of_its_own() -> None:
    causes = [of_link(Facts("dsl", reason, "eth0", target="The gateway"))[0].cause for reason in Reason]
    assert len(set(causes)) == len(Reason)


@pytest.mark.parametrize(
    ("order", "is_found", "answers", "causes", "part"),
    [
        (Order("gw:51840"), False, None, [Cause.GATEWAY_NAME_NOT_FOUND], "name gw:51840 is not found"),
        (Order("gw:51840"), True, None, [Cause.BEING_TRIED], "is being tried"),
        (Order("gw:51840"), True, False, [Cause.NO_ANSWER_ANYWHERE], "leaves by the links themselves"),
        (Order("gw:51840"), True, True, [Cause.WORKS], "The gateway gw:51840 answers."),
        (Order("b:1", "a:1"), True, True, [Cause.WORKS, Cause.LATER_GATEWAY], "the place of a:1, which does not"),
        (
            Order("b:1", "a:1", 40.2, 300.0),
            True,
            True,
            [Cause.WORKS, Cause.EARLIER_GATEWAY_ANSWERS],
            "which has answered again for 40 s. After 300 s everything goes there; connections that run then are cut",
        ),
    ],
)
def test_what_is_said_of_gateways(
    order: Order, is_found: bool, answers: bool | None, causes: list[Cause], part: str
) -> None:
    said = list(of_gateway(order, is_found=is_found, answers=answers))
    assert [each.cause for each in said] == causes
    assert part in " ".join(each.text for each in said)
