"""Kernel configurations as text: what is asked for, what came of it, what was lost. Pure."""

import re
from collections.abc import Mapping

from tributary.settings.errors import CommandError, Exit

_SET = re.compile(r"^(CONFIG_\w+)=(.+)$")
_UNSET = re.compile(r"^# (CONFIG_\w+) is not set$")
_COMMENT = re.compile(r"^(#.*)?$")


def parse(text: str) -> dict[str, str]:
    """Values by option, "n" for those that are named as not set; from a fragment, or from a whole .config."""
    found = {}
    for line in text.splitlines():
        if match := _SET.match(line):
            found[match[1]] = match[2]
        elif match := _UNSET.match(line):
            found[match[1]] = "n"
    return found


def check(name: str, text: str) -> None:
    """Raise CommandError (64) if the fragment ``name`` has a line that the kernel's tools would pass over in
    silence.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        if not _SET.match(line) and not _COMMENT.match(line):
            accepted = "CONFIG_NAME=value, '# CONFIG_NAME is not set', or a comment"
            raise CommandError(Exit.USAGE, f"{name}: line {number}: {line!r}: accepted: {accepted}")


def lost(fragments: Mapping[str, Mapping[str, str]], result: Mapping[str, str]) -> list[str]:
    """What the kernel's own tools did not keep, a line for each option; a module that came out as built in is kept."""
    return [
        f"{option}={asked} of {name} came out as {got}"
        for name, options in fragments.items()
        for option, asked in options.items()
        if (got := result.get(option, "n")) != asked and (asked, got) != ("m", "y")
    ]
