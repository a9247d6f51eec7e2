"""What is so: of a machine that runs, or of a folder that holds a system. Reads, and changes nothing."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from image.firstboot import first_start
from image.firstboot.actions import ROOT, Owner
from image.firstboot.facts import Facts
from image.firstboot.identity import USER
from image.firstboot.interfaces import Kind, interfaces
from image.firstboot.memory import Memory
from image.firstboot.settings import Role
from tributary.daemons.control import STEERING_GROUP
from tributary.settings.errors import CommandError, Exit

ROLE = Path("usr/lib/tributary/role")
"""The image's role, one word; without this file it is a gateway's."""

_SAVED = re.compile(r'\[wan\.(?P<link>.+)\]\n|\[\[rules\]\]\nname = "limit-(?P<path>.+)"\n')
"""The first lines of what `tributary link` and `tributary limit` write with --save (command/steering.py)."""
_UNITS = ("usr/lib/systemd/system", "etc/systemd/system")


def image_role(root: Path) -> Role:
    """Which role the image below ``root`` was made for; raises CommandError (69) if it says something else."""
    path = root / ROLE
    if not path.exists():
        return Role.GATEWAY
    try:
        return Role(path.read_text().strip())
    except ValueError as error:
        raise CommandError(Exit.UNAVAILABLE, f"{path}: accepted: {' or '.join(Role)}") from error


def facts(root: Path, role: Role, last: Memory, sys: Path = Path("/sys")) -> Facts:
    """What a plan for the system below ``root`` needs; its interfaces are those below ``sys``."""
    home, owner = _account(root / "etc/passwd")
    units = {path.name for folder in _UNITS for path in (root / folder).glob("*.*")}
    return replace(
        assumed(role, sys),
        home=home,
        owner=owner,
        units=frozenset(units),
        steering_group=_group(root / "etc/group", STEERING_GROUP),
        code=first_start.kept(root),
        owned_files=last.files,
        owned_units=last.units,
        saved=tuple(_saved(root)),
    )


def assumed(role: Role, sys: Path = Path("/sys")) -> Facts:
    """Of an image, if it ran on this machine: its interfaces, and all units that an image may have."""
    found = interfaces(sys)
    wired = [each for each in found if each.kind is Kind.WIRED]
    return Facts(
        role=role,
        home=f"/home/{USER}",
        owner=ROOT,
        units=None,
        wired=tuple(each.name for each in wired),
        wireless=tuple(each.name for each in found if each.kind is Kind.WIRELESS),
        built_in=tuple(each.name for each in wired if each.built_in),
    )


def _saved(root: Path) -> Iterator[tuple[str, str]]:
    """Not what somebody wrote by hand: the file of `link lte use=backup --save` is called use-lte.toml."""
    for path in sorted((root / "etc/tributary").glob("*.d/*.toml")):
        match = _SAVED.match(path.read_text(errors="replace"))
        if match and path.stem.endswith(f"-{match['link'] or match['path']}"):
            yield f"/{path.relative_to(root)}", match["link"] or match["path"]


def _account(path: Path) -> tuple[str, Owner]:
    for line in _text(path).splitlines():
        name, _, user, group, _, home, _ = line.split(":")
        if name == USER:
            return home, Owner(int(user), int(group))
    raise CommandError(Exit.UNAVAILABLE, f"{path}: has no user {USER}: the image has to bring one")


def _group(path: Path, group: str) -> int:
    """Its number; root's where there is none."""
    groups = (line.split(":") for line in _text(path).splitlines())
    return next((int(number) for name, _, number, _ in groups if name == group), 0)


def _text(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""
