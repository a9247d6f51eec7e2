"""What happens to a home: a link ends or has other addresses all the time, the gateway shuts the router out, a stranger
knocks. Each with what devices notice of it.
"""

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.home.gateway import CONVERT_PORT, ROUTER
from experiments.home.household import Household
from experiments.home.network import GATEWAY, Network
from experiments.home.traffic import calling, downloading
from experiments.testbed.node import python
from experiments.testbed.topology import Link
from tributary.wireguard.enrolment import PORT

CARRIER, SILENCE = "carrier", "silence"
_CUTS = {CARRIER: Network.cut, SILENCE: Network.silent}
LASTING: Mapping[str, float] = {CARRIER: 5.0, SILENCE: 25.0}
"""Seconds of a cut. The daemon asks each link every 10 s, and takes one out after three questions of 2 s each."""
_BEFORE, _AFTER = 3.0, 2.0
_KNOCKED_AT = (
    *(f"tcp/{port}" for port in (22, 53, 80, 443, 1080, 3128, 3129, CONVERT_PORT, PORT)),
    *(f"udp/{port}" for port in (53, 443, CONVERT_PORT, 51820, PORT)),
)


@dataclass(frozen=True)
class Noticed:
    """What was noticed of a cut, in seconds: the longest time without an answer or a byte; the caller's addresses."""

    call_gap: float
    download_gap: float
    addresses: list[str]


def cut(home: Household, link: Link, how: str) -> Noticed:
    """A link ends, with or without its carrier, and comes back, during a call and a download of a device."""
    lasting = LASTING[how]
    with calling(home.network.device) as call, downloading(home.network.device, _BEFORE + lasting + _AFTER) as download:
        time.sleep(_BEFORE)
        begun = time.monotonic()
        with _CUTS[how](home.network, link):
            time.sleep(lasting)
        told, ended = download.end(), time.monotonic()
        heard = call()
    home.router.wait_until_whole()
    return Noticed(heard.gap(begun, ended), told["longest_pause"], heard.addresses)


@dataclass(frozen=True)
class Wandered:
    """How a download of a device was meanwhile; every byte of it was right."""

    changes: int
    mbps: float
    pause: float


def wander(home: Household, link: Link, changes: int, every: float) -> Wandered:
    """A link has another address every so many seconds."""
    host, first = 2, 20
    with downloading(home.network.device, _BEFORE + changes * every) as download:
        time.sleep(_BEFORE)
        for number in range(changes):
            home.network.lease(link, first + number, before=host)
            host = first + number
            time.sleep(every)
        told = download.end()
    home.network.lease(link, before=host)
    home.router.wait_until_whole()
    return Wandered(changes, told["bits_per_second"] / 1e6, told["longest_pause"])


def revoke(home: Household) -> float:
    """The gateway shuts the router out: the seconds in which a call still passed."""
    file, kept = _file_of_the_router(home)
    shutil.copy(file, kept)
    with calling(home.network.device) as call:
        begun = time.monotonic()
        home.gateway.revoke()
        time.sleep(_AFTER)
        heard = call()
    return heard.last_by(GATEWAY) - begun


def let_in(home: Household) -> None:
    """The gateway lets the router in again, if it has shut it out."""
    file, kept = _file_of_the_router(home)
    if not kept.exists():
        return
    kept.rename(file)
    (file.parents[1] / "revoked.json").unlink()  # else its keys stay out
    since = time.time()
    home.gateway.command("sync")
    # The gateway has forgotten all keys, and WireGuard makes new ones 15 s after data without an answer.
    with calling(home.network.device):
        home.router.wait_until_renewed(since)
    home.router.wait_until_whole()


def _file_of_the_router(home: Household) -> tuple[Path, Path]:
    """The gateway's file of the router, and where it is kept while the router is shut out."""
    folder = home.network.directory
    return folder / "gateway/routers" / f"{ROUTER}.toml", folder / f"{ROUTER}-kept.toml"


def knock(home: Household) -> list[str]:
    """The ports of the gateway that answer a host on the Internet."""
    return [*home.network.server.told(*python("experiments.probes.knock", GATEWAY, "1", *_KNOCKED_AT))]
