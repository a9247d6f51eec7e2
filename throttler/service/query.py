"""Which sessions are asked for: a filter, an order, and a part of what fits. Pure."""

from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Literal, cast

from pydantic import Field

from throttler.policy.values import NETWORKS, Networks
from throttler.service.snapshot import Snapshot
from throttler.sessions import Session
from tributary.api.places import MOST_SESSIONS
from tributary.mptcp.four_tuple import FourTuple
from tributary.mptcp.sockets import Traffic
from tributary.settings.errors import invalid_value
from tributary.settings.files import Settings
from tributary.settings.hosts import by_number
from tributary.settings.privacy import BITS, Privacy


class SessionQuery(Settings):
    """What a session has to be like: each given key must match."""

    token: str | None = Field(None, description="eight hexadecimal digits")
    clients: Networks = Field((), max_length=16, strict=False, description=f"{NETWORKS}, 16 at most")
    path: str | None = Field(None, description="the name of a path of one of its subflows")
    rule: str | None = Field(None, description="the name of a rule that applies to one of them")
    throttled: bool = Field(False)
    sort: Literal["age", "client", "throttled", "sent", "received"] | None = Field(
        None, description="'age', 'client', 'throttled', 'sent' or 'received'"
    )
    descending: bool = Field(False)
    offset: int = Field(0, ge=0, description="a whole number")
    limit: int = Field(MOST_SESSIONS, ge=1, le=MOST_SESSIONS)


def check(query: SessionQuery, privacy: Privacy) -> None:
    """Raise CommandError, exit 64, for a network that says more of a client than may be shown."""
    for network in query.clients if privacy != "full" else ():
        if privacy == "none" or network.prefixlen > BITS[network.version]:
            accepted = f"networks of /{BITS[4]} or larger (IPv6: /{BITS[6]})" if privacy == "network" else "none"
            raise invalid_value("sessions", "clients", str(network), f"{accepted}, since privacy = '{privacy}'")


def found(query: SessionQuery, snapshot: Snapshot, traffic: Mapping[FourTuple, Traffic]) -> Sequence[Session]:
    """All sessions that fit, in the order that is asked for."""
    fits = [session for session in snapshot.sessions if _fits(query, session, snapshot)]
    if query.sort is None:
        return fits
    keys: Mapping[str, Callable[[Session], Any]] = {
        "age": lambda session: -session.since,
        "client": lambda session: by_number(client(session)),
        "throttled": lambda session: sum(each.throttled for each in snapshot.decisions.get(session.token, ())),
        "sent": lambda session: _sum(session, traffic, "acked"),
        "received": lambda session: _sum(session, traffic, "received"),
    }
    return sorted(fits, key=keys[query.sort], reverse=query.descending)


def _fits(query: SessionQuery, session: Session, snapshot: Snapshot) -> bool:
    if query.token is not None and query.token != f"{session.token:08x}":
        return False
    decisions = snapshot.decisions.get(session.token, ())
    if query.path is not None and all(each.path != query.path for each in decisions):
        return False
    if query.rule is not None and all(each.rule != query.rule for each in decisions):
        return False
    if query.throttled and not any(each.throttled for each in decisions):
        return False
    if not query.clients:
        return True
    address = ip_address(client(session))
    return any(address in network for network in query.clients)


def client(session: Session) -> str:
    """Its address on the first subflow."""
    return min(session.subflows, key=lambda subflow: not subflow.initial).name.remote


def _sum(session: Session, traffic: Mapping[FourTuple, Traffic], counter: str) -> int:
    known = (traffic.get(subflow.name) for subflow in session.subflows)
    return sum(cast(int, getattr(each, counter)) for each in known if each)
