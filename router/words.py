"""What is wrong with a link or a gateway, in words of somebody who has a home network, and what would help. Pure.

Each finding has a code, for programs, and a sentence or two, for people.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from router.links import Reason
from router.multipath import Verdict
from router.path_mtu import PPPOE
from tributary.settings.links import Use


class Cause(StrEnum):
    """The codes; they stay what they are from version to version."""

    WORKS = "works"
    WAITS = "waits"
    BY_SETTINGS = "by-settings"
    UNASKED = "unasked"
    BEING_TRIED = "being-tried"
    NO_INTERFACE = "no-interface"
    SWITCHED_OFF = "switched-off"
    NO_CARRIER = "no-carrier"
    NO_ADDRESS = "no-address"
    SAME_ADDRESS = "same-address"
    LAN_NETWORK = "lan-network"
    NO_GATEWAY = "no-default-route"
    NO_ANSWER = "no-answer"
    NO_ANSWER_ANYWHERE = "no-answer-anywhere"
    TUNNEL_BLOCKED = "tunnel-blocked"
    LOGIN_PAGE = "login-page"
    SMALL_PACKETS = "small-packets"
    MULTIPATH_STRIPPED = "mptcp-stripped"
    MULTIPATH_DROPPED = "mptcp-dropped"
    MULTIPATH_UNKNOWN_OUTSIDE = "mptcp-at-no-link"
    GATEWAY_WITHOUT_MULTIPATH = "gateway-without-mptcp"
    GATEWAY_NAME_NOT_FOUND = "gateway-name-not-found"
    LATER_GATEWAY = "later-gateway"
    EARLIER_GATEWAY_ANSWERS = "earlier-gateway-answers"
    ANSWERS_AGAIN = "answers-again"


@dataclass(frozen=True)
class Finding:
    """What was found."""

    cause: Cause
    text: str


@dataclass(frozen=True)
class Facts:
    """What is known of one link: ``down`` a Reason, or what its settings say (policy.py).

    ``target`` is what its probes must reach, as people call it; None if it is not probed. ``answers``: whether the
    last probe was answered, None when not yet, or not just now. ``target_answers``: whether it does by any link.
    ``needed``: for how many seconds a link that is out must answer. ``reached``: whether the gateway's outside
    answers pings, None if nobody asked. ``tunnel``: the UDP port that its tunnel leads to, None without one.
    ``login`` is the address of a login page. ``packet`` and ``interface_packet`` are the largest that pass to the
    gateway and through the interface, in bytes, None if that was not measured. ``inside`` and ``outside`` are what
    MPTCP came to in the tunnel and past it, and ``others`` past it by other links.
    """

    name: str
    down: str | None
    interface: str | None = None
    use: Use = Use.PRIMARY
    waits: bool = False
    target: str | None = None
    answers: bool | None = None
    target_answers: bool = False
    needed: float = 0.0
    reached: bool | None = None
    tunnel: int | None = None
    login: str | None = None
    packet: int | None = None
    interface_packet: int = 1500
    inside: Verdict | None = None
    outside: Verdict | None = None
    others: tuple[Verdict, ...] = ()


def of_link(facts: Facts) -> tuple[Finding, ...]:
    """What to say of a link, the most important first; there is always something."""
    return (_state(facts), *_packets(facts), *_multipath(facts))


_DOWN: dict[str, tuple[Cause, str]] = {
    Reason.NO_INTERFACE: (
        Cause.NO_INTERFACE,
        "Nothing is plugged in that fits {name}. Check the plug, then the rule of [wan.{name}] in the settings.",
    ),
    Reason.SWITCHED_OFF: (
        Cause.SWITCHED_OFF,
        "{name} is switched off on this box. `sudo ip link set {interface} up` switches it on.",
    ),
    Reason.NO_CARRIER: (
        Cause.NO_CARRIER,
        "{name} has no connection to its modem. Check the cable, and whether the modem is on; by radio, the signal.",
    ),
    Reason.NO_ADDRESS: (
        Cause.NO_ADDRESS,
        "{name} got no address from its modem. It may still be starting; otherwise restart the modem.",
    ),
    Reason.SAME_ADDRESS: (
        Cause.SAME_ADDRESS,
        "{name} and another link got the same address from their modems. Give one of the modems another network.",
    ),
    Reason.LAN_NETWORK: (
        Cause.LAN_NETWORK,
        "{name}'s modem gives addresses of the network that the LAN has on this box. Give one of them another network:"
        " the modem in its own settings, or the LAN by its address.",
    ),
    Reason.NO_GATEWAY: (
        Cause.NO_GATEWAY,
        "{name} has an address, but its modem says no way to the Internet. Restart the modem.",
    ),
}


def _state(facts: Facts) -> Finding:
    name = facts.name
    if facts.down and (known := _DOWN.get(facts.down)):
        cause, text = known
        return Finding(cause, text.format(name=name, interface=facts.interface))
    if facts.down is Reason.LOGIN:
        return Finding(
            Cause.LOGIN_PAGE,
            f"{name}: a login page is in the way. Open {facts.login} in a browser on a device behind this box. If it"
            f" does not open there, unplug the other links meanwhile. {name} is used as soon as you are let in.",
        )
    if facts.down is Reason.NO_ANSWER and facts.answers:
        return Finding(
            Cause.ANSWERS_AGAIN,
            f"{name} did not answer, and does again. It is used when that has held"
            + (f" for {facts.needed:.0f} s: it failed soon after it came back before." if facts.needed else "."),
        )
    is_silent = facts.answers is False and not facts.down and not facts.target_answers
    if is_silent or facts.down is Reason.NO_ANSWER:
        return _silence(facts)
    if facts.down is not None:
        return Finding(Cause.BY_SETTINGS, f"{name} is not used, as its settings say: {facts.down}.")
    if facts.target is None:
        return Finding(Cause.UNASKED, f"{name} is connected. Nobody asks whether it leads anywhere.")
    if not facts.answers:
        return Finding(Cause.BEING_TRIED, f"{name} is connected, and is being tried.")
    return _at_work(facts)


def _silence(facts: Facts) -> Finding:
    """The probed target does not answer: whose fault is it?"""
    name = facts.name
    if facts.reached and facts.tunnel is not None:
        what = f"By {name} the gateway's machine answers, and its tunnel does not."
        if facts.target_answers:
            why = f"By another link it does: the provider of {name}, or its modem, stops UDP to port {facts.tunnel}."
        else:
            why = (
                f"Its service may be off, it may not know this box any more, or UDP to port {facts.tunnel} is stopped."
            )
        return Finding(Cause.TUNNEL_BLOCKED, f"{what} {why}")
    if facts.down is None:
        return Finding(
            Cause.NO_ANSWER_ANYWHERE,
            f"{facts.target} does not answer by {name}, nor by any other link: it is away, or all links are.",
        )
    return Finding(
        Cause.NO_ANSWER,
        f"{facts.target} does not answer by {name}, but does by another link. So {name} leads nowhere now, or its"
        " provider lets nothing through. It is not used until it answers again.",
    )


def _at_work(facts: Facts) -> Finding:
    if facts.use is Use.BACKUP:
        return Finding(Cause.WAITS, f"{facts.name} works, and waits: it is used when no other link works.")
    if facts.waits:
        return Finding(Cause.WAITS, f"{facts.name} works, and waits: it is used when the links before it are full.")
    return Finding(Cause.WORKS, f"{facts.name} works.")


def _packets(facts: Facts) -> Iterator[Finding]:
    if facts.down or facts.packet is None or facts.packet >= facts.interface_packet:
        return
    kind = " (PPPoE, as usual with DSL)" if facts.packet == PPPOE else ""
    fits = (
        "The tunnel's packets are made to fit: there is nothing to do."
        if facts.tunnel is not None
        else f"If some pages do not load by {facts.name}, give its interface that MTU."
    )
    yield Finding(
        Cause.SMALL_PACKETS,
        f"{facts.name}'s MTU is {facts.packet}{kind}: larger packets do not pass. {fits}",
    )


_HARMLESS = "Inside the tunnel Multipath TCP passes all the same: there is nothing to do."
_HARMFUL = "So {name} is not used together with the other links. An enrolment at the gateway, with its tunnels, helps."


def _multipath(facts: Facts) -> Iterator[Finding]:
    if facts.down:
        return
    name = facts.name
    if facts.inside is Verdict.PLAIN:
        yield Finding(
            Cause.GATEWAY_WITHOUT_MULTIPATH,
            f"The gateway speaks no Multipath TCP to {name}: each connection takes one link alone. Its kernel may have"
            " it switched off (sysctl net.mptcp.enabled).",
        )
    effect = _HARMFUL.format(name=name) if facts.tunnel is None else _HARMLESS
    if facts.outside is Verdict.DROPPED:
        yield Finding(Cause.MULTIPATH_DROPPED, f"{name} lets no connection begin that asks for Multipath TCP. {effect}")
    elif facts.outside is Verdict.PLAIN and Verdict.MULTIPATH in facts.others:
        yield Finding(Cause.MULTIPATH_STRIPPED, f"{name} strips Multipath TCP from connections. {effect}")
    elif facts.outside is Verdict.PLAIN:
        yield Finding(
            Cause.MULTIPATH_UNKNOWN_OUTSIDE,
            f"The server that was asked answers without Multipath TCP by {name}, and with it by no link: it has none,"
            " or all links strip it.",
        )


@dataclass(frozen=True)
class Order:
    """Which gateway of several is used: ``place`` is where it is, and ``earlier`` where one is that comes before it.

    ``answered`` is for how many seconds that one has answered again, None if it does not; ``needed`` how many it must.
    """

    place: str
    earlier: str | None = None
    answered: float | None = None
    needed: float = 0.0


def of_gateway(order: Order, *, is_found: bool, answers: bool | None) -> Iterator[Finding]:
    """What to say of the gateway in use, and of the one before it; ``answers`` None before the first probe's end."""
    if not is_found:
        yield Finding(
            Cause.GATEWAY_NAME_NOT_FOUND,
            f"The gateway's name {order.place} is not found: everything leaves by the links themselves. The name is"
            " wrong, or no link has a connection.",
        )
    elif answers is None:
        yield Finding(Cause.BEING_TRIED, f"The gateway {order.place} is being tried.")
    elif not answers:
        yield Finding(
            Cause.NO_ANSWER_ANYWHERE,
            f"The gateway {order.place} does not answer: everything leaves by the links themselves. It is off, it does"
            " not know this box any more, or no link has a connection.",
        )
    else:
        yield Finding(Cause.WORKS, f"The gateway {order.place} answers.")
    if order.earlier is not None and order.answered is None:
        yield Finding(Cause.LATER_GATEWAY, f"It takes the place of {order.earlier}, which does not answer.")
    elif order.earlier is not None:
        yield Finding(
            Cause.EARLIER_GATEWAY_ANSWERS,
            f"It takes the place of {order.earlier}, which has answered again for {order.answered:.0f} s. After"
            f" {order.needed:.0f} s everything goes there; connections that run then are cut once.",
        )
