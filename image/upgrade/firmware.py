"""The program that RAUC and Debian's kernels call on a Raspberry Pi, which has no boot loader to be told anything.

RAUC's reference, "Custom bootloader backend interface", has the first four verbs and what they print.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from image.upgrade.boot_partition import BOOT, BootPartition, fill
from image.upgrade.choice import SLOTS, folder
from tributary.settings.cli import Arguments
from tributary.settings.errors import CommandError, Exit

DESCRIPTION = """\
Tells a Raspberry Pi's boot partition which of two slots to start, for RAUC and for the hooks of Debian's kernels: a
person calls tributary-upgrade."""


@dataclass(frozen=True)
class GetPrimary:
    """Which slot starts next."""


@dataclass(frozen=True)
class SetPrimary:
    """``slot`` starts next."""

    slot: str


@dataclass(frozen=True)
class GetState:
    """May ``slot`` be started?"""

    slot: str


@dataclass(frozen=True)
class SetState:
    """``slot`` may be started if its ``state`` is good."""

    slot: str
    state: str


@dataclass(frozen=True)
class Fill:
    """The slot that runs starts its newest kernel."""


def main(words: Sequence[str]) -> int:
    """Run the command; raises CommandError."""
    return parser().dispatch(words)


def parser() -> Arguments:
    """All verbs and their arguments."""
    made = Arguments(prog="firmware-slots", description=DESCRIPTION)
    verbs = made.add_subparsers(required=True, metavar="VERB")
    primary = verbs.add_parser("get-primary", help="print the slot that starts next")
    primary.set_handler(GetPrimary, _get_primary)
    preferring = verbs.add_parser("set-primary", help="let a slot start next: on trial, unless it runs")
    preferring.set_handler(SetPrimary, _set_primary)
    asking = verbs.add_parser("get-state", help="print whether a slot may be started: good, bad")
    asking.set_handler(GetState, _get_state)
    judging = verbs.add_parser("set-state", help="say whether a slot may be started; the one that runs stays if it may")
    judging.set_handler(SetState, _set_state)
    for each in (preferring, asking, judging):
        each.add_argument("slot", choices=SLOTS)
    judging.add_argument("state", choices=("good", "bad"))
    filling = verbs.add_parser("fill", help="let the slot that runs start its newest kernel")
    filling.set_handler(Fill, _fill)
    return made


def running(cmdline: str) -> str:
    """The slot that the kernel's ``cmdline`` names; raises CommandError (69) if there is none."""
    match = re.search(r"(?:^|\s)rauc\.slot=([AB])(?:\s|$)", cmdline)
    if match is None:
        raise CommandError(Exit.UNAVAILABLE, "this system was not started from one of two slots")
    return match[1]


def _running() -> str:
    return running(Path("/proc/cmdline").read_text())


def _get_primary(_: GetPrimary) -> None:
    print(BootPartition(BOOT).read().first)


def _get_state(options: GetState) -> None:
    print("good" if options.slot in BootPartition(BOOT).read().good else "bad")


def _set_primary(options: SetPrimary) -> None:
    boot = BootPartition(BOOT)
    boot.write(boot.read().prefer(options.slot, _running()))


def _set_state(options: SetState) -> None:
    boot = BootPartition(BOOT)
    boot.write(boot.read().judge(options.slot, _running(), good=options.state == "good"))


def _fill(_: Fill) -> None:
    fill(Path("/"), BOOT / folder(_running()))
