"""How a home router's tunnels are made: what the daemon's settings and a card's say alike."""

from typing import Annotated

from pydantic import Field

from tributary.settings.files import Settings
from tributary.settings.probing import Seconds
from tributary.settings.units import Duration
from tributary.settings.values import accepting, matching, reading

KEEPALIVE = "a time in whole seconds from '1s' to '3600s'"
PREFIX = "1 to 14 of a-z, 0-9, _ and -, a letter first, with which no other interface's name begins"


def _is_whole(time: Duration) -> bool:
    return time.seconds.is_integer() and 1 <= time.seconds <= 3600


Keepalive = Annotated[Duration, accepting(KEEPALIVE, reading(Duration, Duration.parse, _is_whole))]


class Tunnels(Settings):
    """The encrypted leg: how its interfaces are made."""

    prefix: Annotated[str, matching(r"[a-z][a-z0-9_-]{0,13}", PREFIX)] = Field(
        "tb", title="their names' beginning: 'tb1' is the first link's"
    )
    keepalive: Keepalive = Field(
        default=Duration.parse("20s"), title="between packets of an idle tunnel, for a NAT's entry"
    )
    return_after: Seconds = Field(
        default=Duration.parse("300s"), title="time for which an earlier gateway must answer before tunnels return"
    )

    def name(self, place: int) -> str:
        """The interface's name of the tunnel at ``place`` (tributary/wireguard/addresses.py)."""
        return f"{self.prefix}{place}"
