"""What the demo of a home shows, and its verdict. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from experiments.home.events import Noticed, Wandered
from experiments.home.network import GATEWAY
from experiments.study.readings import Verdict, at_least, at_most, exactly

_SHARE = 0.90
"""Of what the tunnels carry one by one; a busy machine needs room (experiments/scenarios/home.py has the figure)."""
_GAP, _LONGEST_PAUSE, _OUT_WITHIN = 1.0, 5.0, 5.0
"""Seconds."""
MOST_CHANGES = 4


@dataclass(frozen=True)
class Shown:
    """All that the demo measured; rates in Mbit/s, ``alone`` of each tunnel, ``bonded`` by the server's port.

    ``stripped``: while one link's provider takes MPTCP's option out; ``knocked``: ports that answered a stranger.
    """

    alone: Mapping[str, float]
    bonded: Mapping[int, float]
    stripped: float
    cut: Noticed
    wandered: Wandered
    knocked: Sequence[str]
    revoked: float


def summary(shown: Shown) -> dict[str, object]:
    """The content of summary.json."""
    return {
        "alone_mbps": {link: round(rate, 2) for link, rate in shown.alone.items()},
        "bonded_mbps": {str(port): round(rate, 2) for port, rate in shown.bonded.items()},
        "stripped_mbps": round(shown.stripped, 2),
        "cut": asdict(shown.cut),
        "wandered": asdict(shown.wandered),
        "knocked": list(shown.knocked),
        "revoked_s": round(shown.revoked, 3),
        "claims": [claim.as_json() for claim in claims(shown)],
    }


def claims(shown: Shown) -> list[Verdict]:
    """What a home router promises, each held against what was measured."""
    least = _SHARE * sum(shown.alone.values())
    bonds = [
        at_least(f"a device's download from port {port} takes both links", rate, least, "Mbit/s")
        for port, rate in shown.bonded.items()
    ]
    addresses = ", ".join(shown.cut.addresses)
    unbroken = f"{shown.wandered.changes} other addresses of a link break nothing: a download goes on"
    return [
        *bonds,
        at_least("so does one while a provider takes MPTCP's option out", shown.stripped, least, "Mbit/s"),
        at_most("a call goes on when its link is cut", shown.cut.call_gap, _GAP, "s without an answer"),
        exactly("and the other end knows the caller by the gateway's address alone", addresses, GATEWAY),
        at_most("a download goes on as well", shown.cut.download_gap, _LONGEST_PAUSE, "s without a byte"),
        at_most(unbroken, shown.wandered.pause, _LONGEST_PAUSE, "s without a byte"),
        exactly("ports of the gateway that answer a stranger", ", ".join(shown.knocked) or "none", "none"),
        at_most("a router that is shut out is out", shown.revoked, _OUT_WITHIN, "s later"),
    ]
