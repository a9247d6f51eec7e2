"""The largest packet that passes from a link to the gateway, by probes of different sizes (RFC 8899). Pure.

A probe is a ping that routers must not fragment. A router that cannot forward it should report the MTU of its next link
(RFC 1191), but many do not. So silence counts, too, when it repeats and smaller probes are answered before and after.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from router.probes.schedule import PeriodicChecks
from tributary.kernel.state import Address

BASE: Mapping[int, int] = {4: 1200, 6: 1280}
"""Bytes that pass nearly everywhere, by IP version: BASE_PLPMTU of RFC 8899 section 5.1.2, and IPv6's least MTU."""
TRIES = 3
"""Probes of a size that must be lost: MAX_PROBES of the same section."""
PPPOE = 1492
"""RFC 2516 section 7: usual on DSL, so it is tried first."""
AGAIN, METERED, SOON = 3600.0, 86400.0, 60.0
"""Seconds between two searches, of metered links, and after one without an answer, which then doubles."""
LONGEST, SHORTEST = 1.0, 0.3
"""Seconds that an answer may take: before the round-trip time is known, and the minimum afterwards."""


class Search:
    """A search for the largest packet of up to ``most`` bytes; ``size`` is that of the next probe."""

    def __init__(self, most: int, version: int = 4) -> None:
        self._base = min(BASE[version], most)
        self._low: int | None = None
        """The largest that was answered."""
        self._high = most + 1
        """The smallest that cannot pass."""
        self._tries = 0
        self._rtt: float | None = None
        self._is_reported = False
        self._is_checked = True
        self.size: int | None = most
        """None when the search is over."""

    @property
    def result(self) -> int | None:
        """The result of a search that is over; None if there was no answer."""
        return self._low if self.size is None else None

    @property
    def timeout(self) -> float:
        """Seconds that the answer to the next probe may take."""
        return LONGEST if self._rtt is None else min(max(4 * self._rtt, SHORTEST), LONGEST)

    def answered(self, rtt: float) -> None:
        assert self.size is not None, "the search is over"
        self._rtt = rtt
        self._low = max(self._low or 0, self.size)
        # A router reported an MTU, and a packet of that size passed.
        self._is_checked = True
        if self._is_reported:
            self._high = self._low + 1
        self._next()

    def lost(self) -> None:
        assert self.size is not None, "the search is over"
        self._tries += 1
        if self._tries < TRIES:
            return
        if self.size in (self._base, self._low):
            # Nothing passes any more: the earlier losses mean nothing.
            self._low, self.size = None, None
            return
        self._is_reported = False
        self._high = self.size
        self._is_checked = False
        self._next()

    def too_large(self, most: int) -> None:
        """A router reports an MTU of ``most`` bytes."""
        assert self.size is not None, "the search is over"
        if not self._base <= most < self.size:
            self.lost()
            return
        self._high = min(self._high, self.size)
        self._low = None if self._low is None or most < self._low else self._low
        self._is_reported = True
        self._go(most)

    def _go(self, size: int | None) -> None:
        self.size, self._tries = size, 0

    def _next(self) -> None:
        if self._low is None:
            self._go(self._base)
        elif self._high - self._low > 1:
            self._go(PPPOE if self._low < PPPOE < self._high else (self._low + self._high) // 2)
        else:
            self._go(None if self._is_checked else self._low)


@dataclass(frozen=True)
class Path:
    """From a link's address to the gateway's public address; ``interface_mtu`` in bytes."""

    interface: str
    source: Address
    target: Address
    interface_mtu: int
    is_metered: bool = False


class Paths(PeriodicChecks[Path, int]):
    """The largest packets of all links, in bytes, as far as known."""

    def __init__(self) -> None:
        super().__init__()
        self._searches: dict[str, Search] = {}
        self.reached: dict[str, bool] = {}
        """Whether the gateway's public address has answered in the last search."""
        self._unanswered: dict[str, int] = {}
        """How many searches in a row had no answer."""
        self._silent: frozenset[str] = frozenset()

    def set_paths(self, paths: Mapping[str, Path]) -> set[str]:
        """Measures exactly these paths from now on; forgets the results of paths that have changed."""
        stale = super().set_paths(paths)
        for name in stale:
            self._searches.pop(name, None)
            self.reached.pop(name, None)
            self._unanswered.pop(name, None)
        return stale

    def recheck(self, names: Collection[str], now: float) -> None:
        """The gateway is silent on these links: pings its public address at once, then again and again."""
        for name in names:
            is_new = name not in self._silent
            if is_new:
                self.reached.pop(name, None)
            self.expedite(name, now if is_new else now + SOON)
        self._silent = frozenset(names)

    def start_due(self, now: float) -> list[str]:
        """The links whose first probe to send now."""
        names = super().start_due(now)
        for name in names:
            path = self.paths[name]
            self._searches[name] = Search(path.interface_mtu, path.target.version)
        return names

    def next_probe(self, name: str) -> tuple[Path, int, float] | None:
        """Path, size in bytes and timeout in seconds of the link's next probe; None without a search."""
        search = self._searches.get(name)
        if search is None or search.size is None:
            return None
        return self.paths[name], search.size, search.timeout

    def answered(self, name: str, rtt: float, now: float) -> None:
        if search := self._searches.get(name):
            search.answered(rtt)
            self._conclude(name, search, now)

    def lost(self, name: str, now: float) -> None:
        if search := self._searches.get(name):
            search.lost()
            self._conclude(name, search, now)

    def too_large(self, name: str, most: int, now: float) -> None:
        if search := self._searches.get(name):
            search.too_large(most)
            self._conclude(name, search, now)

    def _conclude(self, name: str, search: Search, now: float) -> None:
        if search.size is not None:
            return
        del self._searches[name]
        self.reached[name] = search.result is not None
        pause = METERED if self.paths[name].is_metered else AGAIN
        if search.result is not None:
            self.results[name] = search.result
            self._unanswered.pop(name, None)
        else:
            # A firewall in front of the gateway may drop all pings.
            tries = self._unanswered.get(name, 0)
            self._unanswered[name] = tries + 1
            pause = min(SOON * 2.0 ** min(tries, 16), pause)
        self.done(name, now + pause)
