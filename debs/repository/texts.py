"""The texts of a repository: the fields of a Release file, and what a machine needs to use it. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime


def release_fields(
    suite: str, architectures: Sequence[str], date: datetime, until: datetime | None
) -> Mapping[str, str]:
    """As https://wiki.debian.org/DebianRepository/Format names them; times are UTC."""
    fields = {
        "Origin": "Tributary",
        "Label": "Tributary",
        "Suite": suite,
        "Codename": suite,
        "Date": _time(date),
        "Architectures": " ".join(architectures),
        "Components": "main",
        "Description": "Tributary, a gateway for Multipath TCP",
    }
    return fields if until is None else fields | {"Valid-Until": _time(until)}


def _time(date: datetime) -> str:
    return f"{date:%a, %d %b %Y %H:%M:%S} UTC"


def sources(suite: str, url: str, key: str) -> str:
    """A file for /etc/apt/sources.list.d (deb822-style, sources.list(5)): this key, and for this repository alone."""
    armour = "".join(f" {line or '.'}\n" for line in key.strip().splitlines())
    return f"""\
Types: deb
URIs: {url}
Suites: {suite}
Components: main
Signed-By:
{armour}"""
