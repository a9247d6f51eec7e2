"""How large a packet may be on a link's way to the gateway: by probes of different sizes (RFC 8899). Pure.

A probe is a ping of a certain size that no router on the way may cut into pieces. One that cannot pass it on should say
so, and how large it may be (RFC 1191); many do not. So silence counts, too, when it comes often and smaller ones are
answered before and after.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from router.observed import Address
from router.rounds import Rounds

BASE: Mapping[int, int] = {4: 1200, 6: 1280}
"""Bytes that pass nearly everywhere, by IP version: BASE_PLPMTU of RFC 8899 section 5.1.2, and IPv6's least MTU."""
TRIES = 3
"""Probes of a size that must be lost: MAX_PROBES of the same section."""
PPPOE = 1492
"""RFC 2516 section 7: what is usual on DSL is tried first."""
AGAIN, METERED, SOON = 3600.0, 86400.0, 60.0
"""Seconds between two searches, of metered links, and after one that nobody answered, then twice that, and so on."""
LONGEST, SHORTEST = 1.0, 0.3
"""Seconds that an answer may take: before the round-trip time is known, and at least afterwards."""


class Search:
    """One search for the largest packet up to ``most`` bytes: ``size`` is that of the probe to send next."""

    def __init__(self, most: int, version: int = 4) -> None:
        self._base = min(BASE[version], most)
        self._low: int | None = None
        """The largest that was answered."""
        self._high = most + 1
        """The least that cannot pass."""
        self._tries = 0
        self._rtt: float | None = None
        self._is_said = False
        self._is_checked = True
        self.size: int | None = most
        """None when the search is over."""

    @property
    def found(self) -> int | None:
        """What was found when the search is over; None if nobody answers, or no longer."""
        return self._low if self.size is None else None

    @property
    def timeout(self) -> float:
        """Seconds that the answer to the next probe may take."""
        return LONGEST if self._rtt is None else min(max(4 * self._rtt, SHORTEST), LONGEST)

    def answered(self, rtt: float) -> None:
        """The probe was answered after so many seconds."""
        assert self.size is not None, "the search is over"
        self._rtt = rtt
        self._low = max(self._low or 0, self.size)
        # A router said how much it passes on, and that much passed.
        self._is_checked = True
        if self._is_said:
            self._high = self._low + 1
        self._next()

    def lost(self) -> None:
        """Nobody answered the probe in time."""
        assert self.size is not None, "the search is over"
        self._tries += 1
        if self._tries < TRIES:
            return
        if self.size in (self._base, self._low):
            # Nothing passes any more: what was lost before says nothing.
            self._low, self.size = None, None
            return
        self._is_said = False
        self._high = self.size
        self._is_checked = False
        self._next()

    def too_large(self, most: int) -> None:
        """A router says that it passes on packets of at most ``most`` bytes."""
        assert self.size is not None, "the search is over"
        if not self._base <= most < self.size:
            self.lost()
            return
        self._high = min(self._high, self.size)
        self._low = None if self._low is None or most < self._low else self._low
        self._is_said = True
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
    """From an address of a link to the gateway's outside; ``most`` is what the link's interface lets pass, in bytes."""

    interface: str
    source: Address
    target: Address
    most: int
    is_metered: bool = False


class Paths(Rounds[Path, int]):
    """The largest packets of all links, in bytes, as far as they are known."""

    def __init__(self) -> None:
        super().__init__()
        self._searches: dict[str, Search] = {}
        self.reached: dict[str, bool] = {}
        """Whether the gateway's outside has answered in the last search."""
        self._in_vain: dict[str, int] = {}
        """How many searches in a row nobody has answered."""
        self._doubted: frozenset[str] = frozenset()

    def keep(self, ways: Mapping[str, Path]) -> set[str]:
        """From now on exactly these are measured; what is known of one that is another now is forgotten."""
        stale = super().keep(ways)
        for name in stale:
            self._searches.pop(name, None)
            self.reached.pop(name, None)
            self._in_vain.pop(name, None)
        return stale

    def doubt(self, names: Collection[str], now: float) -> None:
        """The gateway is silent by these links: is its outside, too? Asked at once, and then soon again and again."""
        for name in names:
            is_new = name not in self._doubted
            if is_new:
                self.reached.pop(name, None)
            self.hurry(name, now if is_new else now + SOON)
        self._doubted = frozenset(names)

    def begin(self, now: float) -> list[str]:
        """The links whose first probe is to be sent now."""
        names = super().begin(now)
        for name in names:
            path = self.ways[name]
            self._searches[name] = Search(path.most, path.target.version)
        return names

    def next_probe(self, name: str) -> tuple[Path, int, float] | None:
        """The path, size in bytes and time in seconds of the link's next probe; None if no search is under way."""
        search = self._searches.get(name)
        if search is None or search.size is None:
            return None
        return self.ways[name], search.size, search.timeout

    def answered(self, name: str, rtt: float, now: float) -> None:
        """What became of the link's probe: it was answered."""
        if search := self._searches.get(name):
            search.answered(rtt)
            self._conclude(name, search, now)

    def lost(self, name: str, now: float) -> None:
        """Or it was lost."""
        if search := self._searches.get(name):
            search.lost()
            self._conclude(name, search, now)

    def too_large(self, name: str, most: int, now: float) -> None:
        """Or a router said that it was too large."""
        if search := self._searches.get(name):
            search.too_large(most)
            self._conclude(name, search, now)

    def _conclude(self, name: str, search: Search, now: float) -> None:
        if search.size is not None:
            return
        del self._searches[name]
        self.reached[name] = search.found is not None
        pause = METERED if self.ways[name].is_metered else AGAIN
        if search.found is not None:
            self.found[name] = search.found
            self._in_vain.pop(name, None)
        else:
            # A firewall before the gateway may let no ping through, ever.
            tries = self._in_vain.get(name, 0)
            self._in_vain[name] = tries + 1
            pause = min(SOON * 2.0 ** min(tries, 16), pause)
        self.ended(name, now + pause)
