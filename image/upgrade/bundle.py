"""May this box take this bundle? Pure; what RAUC says of bundles and slots, as values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from tributary.settings.errors import CommandError, Exit

IsOlder = Callable[[str, str], bool]
"""Whether the first of two versions is older than the second, as dpkg(1) orders them."""


@dataclass(frozen=True)
class Bundle:
    """What its signed manifest says; ``compatible``: for which images it is."""

    compatible: str
    version: str

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> Self:
        """From `rauc info --output-format=json`."""
        return cls(str(info["compatible"]), str(info.get("version") or ""))


@dataclass(frozen=True)
class Slot:
    """``name`` is A or B; ``good``: it may be started, and was not in vain since it was last found good."""

    name: str
    device: str
    runs: bool
    good: bool


@dataclass(frozen=True)
class Slots:
    """Both, and for which images this one takes bundles; ``first`` is the name of the one that starts next."""

    compatible: str
    running: Slot
    other: Slot
    first: str

    @classmethod
    def of(cls, status: Mapping[str, Any]) -> Self:
        """From `rauc status --output-format=json`; raises CommandError (69) if this system runs from no slot."""
        named = {name: each for entry in status["slots"] for name, each in entry.items()}
        found = [_slot(each) for each in named.values()]
        running = [each for each in found if each.runs]
        others = [each for each in found if not each.runs]
        if len(running) != 1 or len(others) != 1:
            raise CommandError(Exit.UNAVAILABLE, "this system was not started from one of two slots")
        first = named.get(status.get("boot_primary") or "")
        return cls(str(status["compatible"]), running[0], others[0], _slot(first).name if first else "")


def _slot(facts: Mapping[str, Any]) -> Slot:
    return Slot(
        str(facts["bootname"]), str(facts["device"]), facts["state"] == "booted", facts.get("boot_status") == "good"
    )


def insist(bundle: Bundle, where: str, slots: Slots, running: str, is_older: IsOlder, *, allow_older: bool) -> None:
    """Raise CommandError (65) unless ``bundle`` is for this image, and no older than the version ``running``."""
    if bundle.compatible != slots.compatible:
        raise CommandError(Exit.BAD_DATA, f"{where}: it is for {bundle.compatible}: accepted: for {slots.compatible}")
    if not bundle.version:
        raise CommandError(
            Exit.BAD_DATA, f"{where}: it has no version: scripts/build-image --key makes bundles that have"
        )
    if not allow_older and is_older(bundle.version, running):
        raise CommandError(
            Exit.BAD_DATA,
            f"{where}: version {bundle.version} is older than {running}, which runs: --allow-older takes it",
        )
