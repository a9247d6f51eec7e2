"""Keeps links' queues short: shapers stand as the settings say, and their rates follow links that change."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from router.adapting import Adapter, Bytes, Way
from router.kernel import shaping as kernel
from router.kernel.counters import octets
from router.links import Link
from router.observed import Observed
from router.overflow import Rates
from router.settings import RouterSettings
from router.shaping import ChangeRates, Given, Kind, Shape, ShapingStep, Stands, command, difference, shapes
from tributary.process import TimedOut
from tributary.settings.errors import CommandError
from tributary.settings.units import PositiveRate

_LONGEST_PAUSE = 30.0
"""Seconds: devices that are made and fail tell of changes, and would be looked at again at once."""

Tell = Callable[[str, str | None], None]
"""Is told each step as commands, and why it failed, if it did."""


class Quality:
    """What is known of the links' shapers, and the door to them."""

    def __init__(self, settings: RouterSettings) -> None:
        self._shaper = kernel.Shaper()
        self._given = Given()
        self._stands = Stands()
        self._shapes: tuple[Shape, ...] = ()
        self._is_clean = False
        self._failures, self._next_try = 0, 0.0
        self._next_count = 0.0
        self.adapters: dict[str, Adapter] = {}
        self.change_settings(settings)

    def change_settings(self, settings: RouterSettings) -> None:
        """Go by other settings from the next look on; a link whose rates are the same keeps what was learnt."""
        known, self._settings = self.adapters, settings
        made = {name: _adapter(settings, name) for name, wan in settings.wan.items() if wan.adapt}
        same = {name: known[name] for name in made if name in known and known[name].most == made[name].most}
        self.adapters = {**made, **same}

    @property
    def kind(self) -> Kind | None:
        """How packets are kept waiting; None while nobody knows what the kernel has."""
        return self._shaper.kind

    @property
    def capacities(self) -> Mapping[str, Rates]:
        """What links can carry now: as the settings say, or, of those that change, what their shapers let pass."""
        fixed = {name: Rates(*self._rates[name]) for name in self._settings.wan if name not in self.adapters}
        standing = [(name, self._given.shapes.get(interface)) for name, interface in self._adapting()]
        return {**fixed, **{name: Rates(shape.download, shape.upload) for name, shape in standing if shape}}

    @property
    def _rates(self) -> Mapping[str, tuple[int | None, int | None]]:
        fixed = {name: (_bits(wan.download), _bits(wan.upload)) for name, wan in self._settings.wan.items()}
        moving = {name: (each.rates.get(Way.DOWN), each.rates.get(Way.UP)) for name, each in self.adapters.items()}
        return {**fixed, **moving}

    def steps(self, links: Sequence[Link], observed: Observed) -> list[ShapingStep]:
        """What has to be done for ``links`` as they are now; raises CommandError, exit 71, if tc(8) shows nothing."""
        self._shapes = tuple(shapes(links, self._rates))
        if self._is_clean and not self._shapes:
            return []
        self._stands = kernel.look()
        there = {interface.name for interface in observed.interfaces}
        steps = list(difference(self._shapes, self._stands, self._given.shapes, there))
        self._is_clean = not self._shapes and not steps
        return steps

    def look(self, links: Sequence[Link], observed: Observed, now: float, tell: Tell) -> bool:
        """Have shapers stand as they should; returns whether all do. What failed is not tried again for a while."""
        if now < self._next_try:
            return False
        if self._align(links, observed, tell):
            self._failures, self._next_try = 0, now
            return True
        self._pause(now)
        return False

    def _pause(self, now: float) -> None:
        self._failures += 1
        self._next_try = now + min(2.0**self._failures, _LONGEST_PAUSE)

    def _align(self, links: Sequence[Link], observed: Observed, tell: Tell) -> bool:
        try:
            steps = self.steps(links, observed)
        except CommandError as failure:
            tell("tc qdisc show", str(failure))
            return False
        try:
            done = [self._carry_out(step, tell) for step in steps]
        except TimedOut as failure:
            # The others would hold up the daemon as long again.
            tell("tc", str(failure))
            return False
        return all(done)

    def _carry_out(self, step: ShapingStep, tell: Tell) -> bool:
        try:
            self._shaper.carry_out(step)
        except TimedOut:
            raise
        except CommandError as failure:
            if not isinstance(step, ChangeRates):
                tell(command(step, self.kind or Kind.SHORT), str(failure))
            return False
        if not isinstance(step, ChangeRates):
            tell(command(step, self.kind or Kind.SHORT), None)
        self._given.note(step)
        return True

    def withdraw(self, observed: Observed, tell: Tell) -> bool:
        """Take all away that is ours; returns whether all is gone."""
        self._settings = self._settings.model_copy(update={"wan": {}})
        self.adapters = {}
        return self._align((), observed, tell)

    @property
    def next_due(self) -> float | None:
        """When bytes are to be counted."""
        return self._next_count if self.adapters else None

    def count(self, now: float) -> list[str]:
        """Count what links with a rate that moves carry; returns those whose delay is to be probed."""
        if not self.adapters or now < self._next_count:
            return []
        for name, interface in self._adapting():
            if (carried := octets(interface)) is not None:
                self.adapters[name].count(Bytes(now, carried.received, carried.sent))
        self._next_count = now + min(each.interval for each in self.adapters.values())
        return [name for name, _ in self._adapting() if self.adapters[name].is_busy]

    def _adapting(self) -> Iterator[tuple[str, str]]:
        """Names and interfaces."""
        by_place = {shape.place: shape.interface for shape in self._shapes}
        for place, name in enumerate(self._settings.wan, start=1):
            if name in self.adapters and place in by_place:
                yield name, by_place[place]

    def told(self, link: str, rtt: float | None, now: float, tell: Tell) -> None:
        """Hear what a probe over ``link`` took, and have its shapers go by what follows."""
        adapter = self.adapters.get(link)
        if adapter is not None and adapter.told(rtt, now):
            self._follow(link, adapter, now, tell)

    def forget(self, now: float, tell: Tell) -> None:
        """Nobody answers probes any more, by whichever link: their silence says nothing of how links are."""
        for link, adapter in self.adapters.items():
            if adapter.forget():
                self._follow(link, adapter, now, tell)

    def _follow(self, link: str, adapter: Adapter, now: float, tell: Tell) -> None:
        """What cannot be done now, the next look does."""
        if now < self._next_try:
            return
        place = list(self._settings.wan).index(link) + 1
        for shape in self._shapes:
            if shape.place == place and shape.interface in self._given.shapes:
                down, up = adapter.rates.get(Way.DOWN), adapter.rates.get(Way.UP)
                changed = replace(self._given.shapes[shape.interface], download=down, upload=up)
                try:
                    self._carry_out(ChangeRates(changed), tell)
                except TimedOut as failure:
                    tell("tc", str(failure))
                    self._pause(now)
                    return

    def status(self, link: Link) -> dict[str, object] | None:
        """What is known of a link's shapers, in bits per second; None of a link without any."""
        wan = link.wan
        if wan.download is None and wan.upload is None:
            return None
        adapter = self.adapters.get(link.name)
        shape = self._given.shapes.get(link.interface.name) if link.interface else None
        idle = adapter.idle_rtt if adapter else None
        return {
            "download": shape.download if shape else None,
            "upload": shape.upload if shape else None,
            "most_download": _bits(wan.download),
            "most_upload": _bits(wan.upload),
            "by": self.kind,
            "foreign_qdisc": bool(link.interface and link.interface.name in self._stands.foreign),
            "idle_rtt_ms": None if idle is None else round(idle * 1000, 3),
        }


def _bits(rate: PositiveRate | None) -> int | None:
    return None if rate is None else rate.amount


def _adapter(settings: RouterSettings, name: str) -> Adapter:
    wan = settings.wan[name]
    return Adapter(_bits(wan.download), _bits(wan.upload))
