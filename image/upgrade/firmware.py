"""The program that RAUC and Debian's kernels call on a Raspberry Pi, which has no boot loader to be told anything.

RAUC's reference, "Custom bootloader backend interface", has the first four verbs and what they print.
"""

import re
from pathlib import Path

from image.upgrade.boot_partition import BOOT, BootPartition, fill
from image.upgrade.choice import SLOTS, folder
from tributary.settings.cli import Arguments, program
from tributary.settings.errors import CommandError, Exit

DESCRIPTION = """\
Tells a Raspberry Pi's boot partition which of two slots to start, for RAUC and for the hooks of Debian's kernels: a
person calls tributary-upgrade."""


def parser() -> Arguments:
    """All verbs and their arguments."""
    made = Arguments(prog="firmware-slots", description=DESCRIPTION)
    verbs = made.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb, (arguments, about) in _VERBS.items():
        parser = verbs.add_parser(verb, help=about)
        parser.set_handler(_act)
        for name in arguments:
            parser.add_argument(name, choices=_CHOICES[name])
    return made


def running(cmdline: str = "") -> str:
    """The slot that the kernel's ``cmdline`` names, of this machine's; raises CommandError (69) if there is none."""
    match = re.search(r"(?:^|\s)rauc\.slot=([AB])(?:\s|$)", cmdline or Path("/proc/cmdline").read_text())
    if match is None:
        raise CommandError(Exit.UNAVAILABLE, "this system was not started from one of two slots")
    return match[1]


def _act(verb: str, slot: str = "", state: str = "") -> None:
    """What a verb does not take is empty."""
    boot = BootPartition(BOOT)
    match verb:
        case "get-primary":
            print(boot.read().first)
        case "set-primary":
            boot.write(boot.read().prefer(slot, running()))
        case "get-state":
            print("good" if slot in boot.read().good else "bad")
        case "set-state":
            boot.write(boot.read().judge(slot, running(), good=state == "good"))
        case "fill":
            fill(Path("/"), BOOT / folder(running()))


_CHOICES = {"slot": SLOTS, "state": ("good", "bad")}
_VERBS: dict[str, tuple[tuple[str, ...], str]] = {
    "get-primary": ((), "print the slot that starts next"),
    "set-primary": (("slot",), "let a slot start next: on trial, unless it runs"),
    "get-state": (("slot",), "print whether a slot may be started: good, bad"),
    "set-state": (("slot", "state"), "say whether a slot may be started; the one that runs stays if it may"),
    "fill": ((), "let the slot that runs start its newest kernel"),
}
"""Which arguments each takes, and its help."""


main = program(parser)
