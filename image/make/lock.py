"""Which versions of Debian's packages an image has, and whether they are those that it was tested with. Pure.

The lock has sections: each names the images that have what is in it, since most of it is the same in all of them.
"""

import configparser
from collections.abc import Mapping, Sequence
from email.parser import HeaderParser

from tributary.settings.errors import CommandError, Exit

Versions = Mapping[str, str]

_HEAD = "# Debian's packages, by the images that have them. scripts/build-image --update-lock writes an image's anew.\n"
_SHOWN = 12


def parse(text: str, where: str) -> dict[str, dict[str, str]]:
    """Of each image, versions by package; raises CommandError (64) that names a line that is none."""
    sections = configparser.RawConfigParser(delimiters=("=",), default_section="")
    try:
        sections.read_string(text, where)
    except configparser.Error as error:
        wrong = " ".join(str(error).split())
        raise CommandError(Exit.USAGE, f"{where}: {wrong}: accepted: NAME=VERSION, below [IMAGE ...]") from error
    found: dict[str, dict[str, str]] = {}
    for having in sections.sections():
        if none := [f"{name}={version}" for name, version in sections[having].items() if len(version.split()) != 1]:
            raise CommandError(Exit.USAGE, f"{where}: {none[0]!r}: accepted: NAME=VERSION, below [IMAGE ...]")
        for image in having.split():
            found.setdefault(image, {}).update(sections[having])
    return found


def text(locks: Mapping[str, Versions]) -> str:
    """What ``parse`` reads."""
    images: dict[str, list[str]] = {}
    for image, versions in sorted(locks.items()):
        for name, version in versions.items():
            images.setdefault(f"{name}={version}\n", []).append(image)
    sections: dict[str, list[str]] = {}
    for entry, having in sorted(images.items()):
        sections.setdefault(" ".join(having), []).append(entry)
    return _HEAD + "".join(f"\n[{having}]\n{''.join(entries)}" for having, entries in sorted(sections.items()))


def installed(status: str) -> dict[str, str]:
    """Versions by package from dpkg's database (/var/lib/dpkg/status)."""
    entries = (HeaderParser().parsestr(entry) for entry in status.split("\n\n") if entry.strip())
    return {entry["Package"]: entry["Version"] for entry in entries if entry["Status"].endswith(" installed")}


def debians(versions: Versions) -> dict[str, str]:
    """Those without Tributary's own."""
    return {name: version for name, version in versions.items() if not name.startswith("tributary-")}


def differences(locked: Versions, found: Versions) -> list[str]:
    """A line for each package that is not as it is locked, by name."""
    return [
        f"{name}: {found.get(name, 'not there')}, locked: {locked.get(name, 'not at all')}"
        for name in sorted({*locked, *found})
        if locked.get(name) != found.get(name)
    ]


def told(differences: Sequence[str], where: str) -> str:
    """That packages differ from those that are locked in the file ``where``, and the first of them."""
    more = [f"and {len(differences) - _SHOWN} more"] if len(differences) > _SHOWN else []
    listed = "".join(f"\n  {line}" for line in (*differences[:_SHOWN], *more))
    return f"{len(differences)} packages are not those of {where}, which this was tested with:{listed}"
