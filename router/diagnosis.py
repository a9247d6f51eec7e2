"""What is wrong with a link or a gateway, in the words of somebody who has a home network, and what would help. Pure.

Each diagnosis has a code, for programs, and a sentence or two, for people.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from router.links.model import Reason
from router.probes.mptcp import Verdict
from router.probes.mtu import PPPOE
from tributary.settings.links import Use


class Code(StrEnum):
    """These stay the same from version to version."""

    WORKS = "works"
    STANDBY = "standby"
    BY_SETTINGS = "by-settings"
    NOT_PROBED = "not-probed"
    PROBING = "probing"
    NO_INTERFACE = "no-interface"
    SWITCHED_OFF = "switched-off"
    NO_CARRIER = "no-carrier"
    NO_ADDRESS = "no-address"
    SAME_ADDRESS = "same-address"
    LAN_NETWORK = "lan-network"
    NO_GATEWAY = "no-default-route"
    OTHER_VERSION = "other-ip-version"
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
class Diagnosis:
    """A code and its text."""

    code: Code
    text: str


@dataclass(frozen=True)
class LinkFacts:
    """The state of one link: ``down`` is a Reason, or what its settings say (links/policy.py).

    ``target`` is what its probes must reach, as people call it; None without probes. ``is_answered``: whether the last
    probe was answered, None if unknown. ``is_target_answering``: whether the target answers by any link. ``required``:
    for how many seconds a link that is down must answer. ``is_gateway_reachable``: whether the gateway's public address
    answers pings, None if unknown. ``tunnel``: the UDP port of its tunnel, None without one. ``mtu`` and
    ``interface_mtu`` are the largest packets to the gateway and on the interface, in bytes, None if not measured.
    ``lacks``: the IP version of all of the gateway's addresses, if the link has the other one alone. ``inside`` and
    ``outside`` are the MPTCP verdicts in the tunnel and outside of it, and ``others`` those outside on other links.
    """

    name: str
    down: str | None
    interface: str | None = None
    use: Use = Use.PRIMARY
    standby: bool = False
    target: str | None = None
    is_answered: bool | None = None
    is_target_answering: bool = False
    required: float = 0.0
    is_gateway_reachable: bool | None = None
    tunnel: int | None = None
    login_page: str | None = None
    mtu: int | None = None
    interface_mtu: int = 1500
    lacks: int | None = None
    inside: Verdict | None = None
    outside: Verdict | None = None
    others: tuple[Verdict, ...] = ()


def of_link(facts: LinkFacts) -> tuple[Diagnosis, ...]:
    """The diagnoses of a link, the most important first; there is at least one."""
    return (_state(facts), *_packets(facts), *_multipath(facts))


_DOWN: dict[str, tuple[Code, str]] = {
    Reason.NO_INTERFACE: (
        Code.NO_INTERFACE,
        "Nothing is plugged in that fits {name}, or its provider has refused the login (PPPoE). Check the plug, the"
        " login, then the rule of [wan.{name}] in the settings.",
    ),
    Reason.SWITCHED_OFF: (
        Code.SWITCHED_OFF,
        "{name} is switched off on this box. `sudo ip link set {interface} up` switches it on.",
    ),
    Reason.NO_CARRIER: (
        Code.NO_CARRIER,
        "{name} has no connection to its modem. Check the cable, and whether the modem is on; by radio,"
        " the signal, and the passphrase.",
    ),
    Reason.NO_ADDRESS: (
        Code.NO_ADDRESS,
        "{name} got no address from its modem. It may still be starting; otherwise restart the modem.",
    ),
    Reason.SAME_ADDRESS: (
        Code.SAME_ADDRESS,
        "{name} and another link got the same address from their modems. Give one of the modems another network.",
    ),
    Reason.LAN_NETWORK: (
        Code.LAN_NETWORK,
        "{name}'s modem gives addresses of the network that the LAN has on this box. Give one of them another network:"
        " the modem in its own settings, or the LAN by its address.",
    ),
    Reason.NO_GATEWAY: (
        Code.NO_GATEWAY,
        "{name} has an address, but its modem says no way to the Internet. Restart the modem.",
    ),
}


def _state(facts: LinkFacts) -> Diagnosis:
    name = facts.name
    if facts.down and (known := _DOWN.get(facts.down)):
        cause, text = known
        return Diagnosis(cause, text.format(name=name, interface=facts.interface))
    if facts.down is Reason.CAPTIVE_PORTAL:
        return Diagnosis(
            Code.LOGIN_PAGE,
            f"{name}: a login page is in the way. Open {facts.login_page} in a browser on a device behind this box. If"
            f" it does not open there, unplug the other links meanwhile. {name} is used as soon as you are let in.",
        )
    if facts.lacks and facts.down in (None, Reason.NO_ANSWER):
        return Diagnosis(
            Code.OTHER_VERSION,
            f"{name} has no IPv{facts.lacks}, and the gateway nothing else, so {name} does not lead there. Ask the"
            f" provider for IPv{facts.lacks}, or give the gateway an address of IPv{10 - facts.lacks}.",
        )
    if facts.down is Reason.NO_ANSWER and facts.is_answered:
        return Diagnosis(
            Code.ANSWERS_AGAIN,
            f"{name} did not answer, and does again. It is used when that has held"
            + (f" for {facts.required:.0f} s: it failed soon after it came back before." if facts.required else "."),
        )
    is_silent = facts.is_answered is False and not facts.down and not facts.is_target_answering
    if is_silent or facts.down is Reason.NO_ANSWER:
        return _silence(facts)
    if facts.down is not None:
        return Diagnosis(Code.BY_SETTINGS, f"{name} is not used, as its settings say: {facts.down}.")
    if facts.target is None:
        return Diagnosis(Code.NOT_PROBED, f"{name} is connected. Nobody asks whether it leads anywhere.")
    if not facts.is_answered:
        return Diagnosis(Code.PROBING, f"{name} is connected, and is being tried.")
    return _at_work(facts)


def _silence(facts: LinkFacts) -> Diagnosis:
    """The probed target does not answer: finds out why."""
    name = facts.name
    if facts.is_gateway_reachable and facts.tunnel is not None:
        what = f"By {name} the gateway's machine answers, and its tunnel does not."
        if facts.is_target_answering:
            why = f"By another link it does: the provider of {name}, or its modem, stops UDP to port {facts.tunnel}."
        else:
            why = (
                f"Its service may be off, it may not know this box any more, or UDP to port {facts.tunnel} is stopped."
            )
        return Diagnosis(Code.TUNNEL_BLOCKED, f"{what} {why}")
    if facts.down is None:
        return Diagnosis(
            Code.NO_ANSWER_ANYWHERE,
            f"{facts.target} does not answer by {name}, nor by any other link: it is away, or all links are.",
        )
    return Diagnosis(
        Code.NO_ANSWER,
        f"{facts.target} does not answer by {name}, but does by another link. So {name} leads nowhere now, or its"
        " provider lets nothing through. It is not used until it answers again.",
    )


def _at_work(facts: LinkFacts) -> Diagnosis:
    if facts.use is Use.BACKUP:
        return Diagnosis(Code.STANDBY, f"{facts.name} works, and is on standby: it is used when no other link works.")
    if facts.standby:
        return Diagnosis(
            Code.STANDBY, f"{facts.name} works, and is on standby: it is used when the links before it are full."
        )
    return Diagnosis(Code.WORKS, f"{facts.name} works.")


def _packets(facts: LinkFacts) -> Iterator[Diagnosis]:
    if facts.down or facts.mtu is None or facts.mtu >= facts.interface_mtu:
        return
    kind = " (PPPoE, as usual with DSL)" if facts.mtu == PPPOE else ""
    fits = (
        "The tunnel's packets are made to fit: there is nothing to do."
        if facts.tunnel is not None
        else f"If some pages do not load by {facts.name}, give its interface that MTU."
    )
    yield Diagnosis(Code.SMALL_PACKETS, f"{facts.name}'s MTU is {facts.mtu}{kind}: larger packets do not pass. {fits}")


_HARMLESS = "Inside the tunnel Multipath TCP passes all the same: there is nothing to do."
_HARMFUL = "So {name} is not used together with the other links. An enrolment at the gateway, with its tunnels, helps."


def _multipath(facts: LinkFacts) -> Iterator[Diagnosis]:
    if facts.down:
        return
    name = facts.name
    if facts.inside is Verdict.PLAIN:
        yield Diagnosis(
            Code.GATEWAY_WITHOUT_MULTIPATH,
            f"The gateway speaks no Multipath TCP to {name}: each connection takes one link alone. Its kernel may have"
            " it switched off (sysctl net.mptcp.enabled).",
        )
    effect = _HARMFUL.format(name=name) if facts.tunnel is None else _HARMLESS
    if facts.outside is Verdict.DROPPED:
        yield Diagnosis(
            Code.MULTIPATH_DROPPED, f"{name} lets no connection begin that asks for Multipath TCP. {effect}"
        )
    elif facts.outside is Verdict.PLAIN and Verdict.MULTIPATH in facts.others:
        yield Diagnosis(Code.MULTIPATH_STRIPPED, f"{name} strips Multipath TCP from connections. {effect}")
    elif facts.outside is Verdict.PLAIN:
        yield Diagnosis(
            Code.MULTIPATH_UNKNOWN_OUTSIDE,
            f"The server that was asked answers without Multipath TCP by {name}, and with it by no link: it has none,"
            " or all links strip it.",
        )


def of_gateway(
    address: str,
    is_found: bool,
    answers: bool | None,
    earlier: str | None = None,
    answering_for: float | None = None,
    required: float = 0.0,
) -> Iterator[Diagnosis]:
    """The diagnoses of the gateway in use, whose HOST:PORT is ``address``, and of an ``earlier`` one.

    ``is_found``: whether its address is known. ``answers`` is None before the first result. ``answering_for``: seconds
    since the earlier one answers again, None if it does not; ``required`` how many it must.
    """
    if not is_found:
        yield Diagnosis(
            Code.GATEWAY_NAME_NOT_FOUND,
            f"The gateway's name {address} is not found: everything leaves by the links themselves. The name is"
            " wrong, or no link has a connection.",
        )
    elif answers is None:
        yield Diagnosis(Code.PROBING, f"The gateway {address} is being tried.")
    elif not answers:
        yield Diagnosis(
            Code.NO_ANSWER_ANYWHERE,
            f"The gateway {address} does not answer: everything leaves by the links themselves. It is off, it"
            " does not know this box any more, or no link has a connection.",
        )
    else:
        yield Diagnosis(Code.WORKS, f"The gateway {address} answers.")
    if earlier is not None and answering_for is None:
        yield Diagnosis(Code.LATER_GATEWAY, f"It takes the place of {earlier}, which does not answer.")
    elif earlier is not None:
        yield Diagnosis(
            Code.EARLIER_GATEWAY_ANSWERS,
            f"It takes the place of {earlier}, which has answered again for {answering_for:.0f} s. After"
            f" {required:.0f} s everything goes there; connections that run then are cut once.",
        )
