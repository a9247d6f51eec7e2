"""Keeps the queues of links short: applies the configured shapers, and adapts their rates."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from router.links.model import Link
from router.links.overflow import Rates
from router.settings import RouterSettings
from router.shaping import qdiscs
from router.shaping.autorate import AutoRate, Direction
from router.shaping.model import (
    ChangeRates,
    InstalledQdiscs,
    Kind,
    RemoveShape,
    Shape,
    ShapingOperation,
    command,
    diff,
    shapes,
)
from tributary.kernel.interfaces import octets
from tributary.kernel.process import TimedOut
from tributary.kernel.state import KernelState
from tributary.settings.errors import CommandError
from tributary.settings.units import PositiveRate

_MAX_PAUSE = 30.0
"""Seconds. Creating a device that then fails is a change, which would cause a reconciliation at once."""

Tell = Callable[[str, str | None], None]
"""Takes the commands of each operation, and why it failed (None if it did not)."""
T = TypeVar("T")


class Aside(Protocol):
    """Runs what waits for a program."""

    def __call__(self, act: Callable[[], T], /) -> T:
        """Returns or raises what ``act`` does."""


def _at_once(act: Callable[[], T], /) -> T:
    return act()


class LinkShapers:
    """The shapers of all links, and access to tc(8)."""

    def __init__(self, settings: RouterSettings, aside: Aside = _at_once) -> None:
        self._aside = aside
        self._kind: Kind | None = None
        self._applied: dict[str, Shape] = {}
        """By interface, its last shape. That set before a restart is unknown."""
        self._installed = InstalledQdiscs()
        self._shapes: tuple[Shape, ...] = ()
        self._is_clean = False
        self._failures, self._next_try = 0, 0.0
        self._next_count = 0.0
        self.auto_rates: dict[str, AutoRate] = {}
        self.change_settings(settings)

    def change_settings(self, settings: RouterSettings) -> None:
        """Takes effect at the next reconciliation. Links whose rates stay the same keep what was learnt."""
        known, self._settings = self.auto_rates, settings
        wans = {name: wan for name, wan in settings.wan.items() if wan.adapt}
        made = {name: AutoRate(_bits(wan.download), _bits(wan.upload)) for name, wan in wans.items()}
        same = {name: known[name] for name in made if name in known and known[name].max_rates == made[name].max_rates}
        self.auto_rates = {**made, **same}

    @property
    def capacities(self) -> Mapping[str, Rates]:
        """The capacities of links now: the configured ones or, with adaptive rates, those of their shapers."""
        fixed = {name: Rates(*self._rates[name]) for name in self._settings.wan if name not in self.auto_rates}
        existing = [(name, self._applied.get(interface)) for name, interface in self._auto_rated()]
        return {**fixed, **{name: Rates(shape.download, shape.upload) for name, shape in existing if shape}}

    @property
    def _rates(self) -> Mapping[str, tuple[int | None, int | None]]:
        fixed = {name: (_bits(wan.download), _bits(wan.upload)) for name, wan in self._settings.wan.items()}
        moving = {
            name: (each.rates.get(Direction.DOWN), each.rates.get(Direction.UP))
            for name, each in self.auto_rates.items()
        }
        return {**fixed, **moving}

    def plan(self, links: Sequence[Link], observed: KernelState) -> list[ShapingOperation]:
        """The operations for ``links``; raises CommandError, exit 71, if tc(8) fails."""
        self._shapes = tuple(shapes(links, self._rates))
        if self._is_clean and not self._shapes:
            return []
        self._installed = self._aside(qdiscs.installed_qdiscs)
        there = {interface.name for interface in observed.interfaces}
        kind = self._kind or Kind.SHORT
        operations = list(diff(self._shapes, self._installed, self._applied, kind, there))
        self._is_clean = not self._shapes and not operations
        return operations

    def reconcile(self, links: Sequence[Link], observed: KernelState, now: float, tell: Tell) -> bool:
        """Applies the shapers; returns whether all exist. A failure is not retried for a while."""
        if now < self._next_try:
            return False
        if self._apply_all(links, observed, tell):
            self._failures, self._next_try = 0, now
            return True
        self._pause(now)
        return False

    def _pause(self, now: float) -> None:
        self._failures += 1
        self._next_try = now + min(2.0**self._failures, _MAX_PAUSE)

    def _apply_all(self, links: Sequence[Link], observed: KernelState, tell: Tell) -> bool:
        try:
            operations = self.plan(links, observed)
        except CommandError as failure:
            tell("tc qdisc show", str(failure))
            return False
        try:
            done = [self._apply(operation, tell) for operation in operations]
        except TimedOut as failure:
            # The other operations would block the daemon as long again.
            tell("tc", str(failure))
            return False
        return all(done)

    def _apply(self, operation: ShapingOperation, tell: Tell) -> bool:
        failed = None
        try:
            self._kind = self._aside(partial(qdiscs.apply, operation, self._kind))
        except TimedOut:
            raise
        except CommandError as failure:
            failed = str(failure)
        if not isinstance(operation, ChangeRates):
            tell(command(operation, self._kind or Kind.SHORT), failed)
        if failed is None:
            if isinstance(operation, RemoveShape):
                self._applied.pop(operation.device, None)
            else:
                self._applied[operation.shape.interface] = operation.shape
        return failed is None

    def remove_all(self, observed: KernelState, tell: Tell) -> None:
        """Removes all that is owned."""
        self._settings = self._settings.model_copy(update={"wan": {}})
        self.auto_rates = {}
        self._apply_all((), observed, tell)

    @property
    def next_due(self) -> float | None:
        """When to count bytes."""
        return self._next_count if self.auto_rates else None

    def count(self, now: float) -> list[str]:
        """Counts what links with adaptive rates carry; returns those whose delay to probe."""
        if not self.auto_rates or now < self._next_count:
            return []
        for name, interface in self._auto_rated():
            if (carried := octets(interface)) is not None:
                self.auto_rates[name].count(carried, now)
        self._next_count = now + min(each.interval for each in self.auto_rates.values())
        return [name for name, _ in self._auto_rated() if self.auto_rates[name].is_busy]

    def _auto_rated(self) -> Iterator[tuple[str, str]]:
        """Names and interfaces."""
        by_place = {shape.slot: shape.interface for shape in self._shapes}
        for slot, name in enumerate(self._settings.wan, start=1):
            if name in self.auto_rates and slot in by_place:
                yield name, by_place[slot]

    def on_rtt(self, link: str, rtt: float | None, now: float, tell: Tell) -> None:
        """Takes a probe's time over ``link``, and applies the rates that follow."""
        auto_rate = self.auto_rates.get(link)
        if auto_rate is not None and auto_rate.on_rtt(rtt, now):
            self._apply_rates(link, auto_rate, now, tell)

    def reset(self, now: float, tell: Tell) -> None:
        """The target answers on no link: missing answers say nothing about a single link."""
        for link, auto_rate in self.auto_rates.items():
            if auto_rate.reset():
                self._apply_rates(link, auto_rate, now, tell)

    def _apply_rates(self, link: str, auto_rate: AutoRate, now: float, tell: Tell) -> None:
        """A failure is retried by the next reconciliation."""
        if now < self._next_try:
            return
        slot = list(self._settings.wan).index(link) + 1
        for shape in self._shapes:
            if shape.slot == slot and shape.interface in self._applied:
                down, up = auto_rate.rates.get(Direction.DOWN), auto_rate.rates.get(Direction.UP)
                changed = replace(self._applied[shape.interface], download=down, upload=up)
                try:
                    self._apply(ChangeRates(changed), tell)
                except TimedOut as failure:
                    tell("tc", str(failure))
                    self._pause(now)
                    return

    def status(self, link: Link) -> dict[str, object] | None:
        """A link's shaper, in bits per second; None without one."""
        wan = link.wan
        if wan.download is None and wan.upload is None:
            return None
        auto_rate = self.auto_rates.get(link.name)
        shape = self._applied.get(link.interface.name) if link.interface else None
        idle = auto_rate.idle_rtt if auto_rate else None
        return {
            "download": shape.download if shape else None,
            "upload": shape.upload if shape else None,
            "max_download": _bits(wan.download),
            "max_upload": _bits(wan.upload),
            "qdisc": self._kind,
            "unmanaged_qdisc": bool(link.interface and link.interface.name in self._installed.foreign),
            "idle_rtt_ms": None if idle is None else round(idle * 1000, 3),
        }


def _bits(rate: PositiveRate | None) -> int | None:
    return None if rate is None else rate.amount
