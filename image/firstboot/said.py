"""What the rest of a card makes of a link, whatever kind the link is. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """``metric`` is that of its default routes.

    ``domains`` are the only ones that its servers are asked for; none: they are asked for all. From a provider who is
    asked for a prefix (RFC 8415 section 6.3), devices get their IPv6 addresses.
    """

    metric: int
    domains: Sequence[str]
    asks_for_a_prefix: bool
