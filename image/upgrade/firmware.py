"""The program that RAUC and Debian's kernels call on a Raspberry Pi, which has no boot loader to be told anything.

RAUC's reference, "Custom bootloader backend interface", has the first four verbs and what they print.
"""

import re
from collections.abc import Callable, Sequence
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
class Options:
    """The arguments of a verb; those that it does not take are empty."""

    slot: str = ""
    state: str = ""


def main(words: Sequence[str]) -> int:
    """Run the command; raises CommandError."""
    return parser().dispatch(words)


def parser() -> Arguments:
    """All verbs and their arguments."""
    made = Arguments(prog="firmware-slots", description=DESCRIPTION)
    verbs = made.add_subparsers(required=True, metavar="VERB")
    for verb, (act, arguments, about) in _VERBS.items():
        parser = verbs.add_parser(verb, help=about)
        parser.set_handler(Options, act)
        for name in arguments:
            parser.add_argument(name, choices=_CHOICES[name])
    return made


def running(cmdline: str) -> str:
    """The slot that the kernel's ``cmdline`` names; raises CommandError (69) if there is none."""
    match = re.search(r"(?:^|\s)rauc\.slot=([AB])(?:\s|$)", cmdline)
    if match is None:
        raise CommandError(Exit.UNAVAILABLE, "this system was not started from one of two slots")
    return match[1]


def _running() -> str:
    return running(Path("/proc/cmdline").read_text())


def _get_primary(_: Options) -> None:
    print(BootPartition(BOOT).read().first)


def _get_state(options: Options) -> None:
    print("good" if options.slot in BootPartition(BOOT).read().good else "bad")


def _set_primary(options: Options) -> None:
    boot = BootPartition(BOOT)
    boot.write(boot.read().prefer(options.slot, _running()))


def _set_state(options: Options) -> None:
    boot = BootPartition(BOOT)
    boot.write(boot.read().judge(options.slot, _running(), good=options.state == "good"))


def _fill(_: Options) -> None:
    fill(Path("/"), BOOT / folder(_running()))


_CHOICES = {"slot": SLOTS, "state": ("good", "bad")}
_VERBS: dict[str, tuple[Callable[[Options], None], tuple[str, ...], str]] = {
    "get-primary": (_get_primary, (), "print the slot that starts next"),
    "set-primary": (_set_primary, ("slot",), "let a slot start next: on trial, unless it runs"),
    "get-state": (_get_state, ("slot",), "print whether a slot may be started: good, bad"),
    "set-state": (
        _set_state,
        ("slot", "state"),
        "say whether a slot may be started; the one that runs stays if it may",
    ),
    "fill": (_fill, (), "let the slot that runs start its newest kernel"),
}
"""What each does, which arguments it takes, and its help."""
