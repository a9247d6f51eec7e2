"""Who takes part in the overlay, and as what: the commands enrol, authorize and revoke."""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlay import authority, plane
from overlay.authority import Purpose
from tributary.settings.cli import Arguments

_ENROL = """\
Makes a certificate that an authority of the overlay's own signs, and prints its folder (ca.pem, node.pem, node.key),
which is to be copied to the node and named there with --identity. The first call makes the authority, and beside it the
certificate of etcd's user root in the folder root. Nobody but their owner can read the folders; who has the authority's
can sign for every name. A name that has a folder is refused: move it away for a new certificate. A certificate alone
opens nothing once authorize was called. In a request hand-off each end checks what the other one's certificate is for.
"""
_AUTHORIZE = """\
Has etcd allow each NAME what it takes, by a user and a role of this name: all may read what the overlay publishes; a
node writes what it says of itself, a controller the tables, the report, and that it is a candidate. From the first call
on etcd refuses everyone else: in an overlay that runs, authorize all of them one right after the other. It asks as
etcd's user root, by the certificate that enrol made. etcd has to run with --client-cert-auth: otherwise nobody gets in
any more, not even root.
"""
_REVOKE = """\
Takes from each NAME all that it may do, and removes what it published: a node is out of all tables at once, and another
controller is elected in the place of one. The certificate stays valid: it counts again if the name is authorized again.
"""
_NAMES = "as in their certificates"


@dataclass(frozen=True)
class Enrol:
    """``overlay enrol``."""

    name: str
    authority: Path
    purpose: Purpose
    days: float
    json: bool

    def __post_init__(self) -> None:
        _check(self.name)


@dataclass(frozen=True)
class Authorize:
    """``overlay authorize``; ``part`` is node, controller or reader."""

    names: Sequence[str]
    part: str
    authority: Path
    endpoints: str
    dry_run: bool
    json: bool

    def __post_init__(self) -> None:
        for name in self.names:
            _check(name)


@dataclass(frozen=True)
class Revoke:
    """``overlay revoke``."""

    names: Sequence[str]
    authority: Path
    endpoints: str
    dry_run: bool
    json: bool

    def __post_init__(self) -> None:
        for name in self.names:
            _check(name)


def _check(name: str) -> None:
    if not authority.NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name: accepted: 1 to 64 of A-Z a-z 0-9 . _ , + -")
    if name in (authority.ADMINISTRATOR, authority.MEMBER, "ca.pem", "ca.key"):
        raise ValueError(f"{name}: accepted: a name that the authority does not use itself")


def add(commands: "argparse._SubParsersAction[Arguments]", codes: str) -> None:
    """The three commands; ``codes`` is what their help says of exit codes."""
    _add_enrol(commands.add_parser("enrol", help="a certificate for a node", description=_ENROL, epilog=codes))
    about = "have etcd allow a node, a controller or a reader what it takes"
    authorize = commands.add_parser("authorize", help=about, description=_AUTHORIZE, epilog=codes)
    authorize.set_handler(Authorize, _authorize)
    authorize.add_argument("names", nargs="+", metavar="NAME", help=_NAMES)
    parts = ("node", "controller", "reader")
    about = "what they are: node, controller or reader (default: %(default)s)"
    authorize.add_argument("--as", dest="part", choices=parts, default="node", metavar="PART", help=about)
    about = "take a node, a controller or a reader out"
    revoke = commands.add_parser("revoke", help=about, description=_REVOKE, epilog=codes)
    revoke.set_handler(Revoke, _revoke)
    revoke.add_argument("names", nargs="+", metavar="NAME", help=_NAMES)
    for each in (authorize, revoke):
        _add_authority(each, "where the authority is, with the certificate of root")
        each.add_argument("--endpoints", required=True, metavar="URL,...", help="etcd's members")
        each.add_argument("--dry-run", action="store_true", help="say what would be changed, change nothing")
        each.add_argument("--json", action="store_true", help="one JSON object on standard output")


def _add_enrol(parser: Arguments) -> None:
    parser.set_handler(Enrol, _enrol)
    parser.add_argument("name", metavar="NAME", help="the holder's name")
    _add_authority(parser, "where the authority is, or is made")
    purpose = parser.add_mutually_exclusive_group()
    for option, of, about in (
        ("--etcd", authority.member, "a member of etcd's"),
        ("--handoff-switch", authority.handoff_switch, "a hand-off's switch"),
        ("--handoff-back-end", authority.handoff_back_end, "a hand-off's back end"),
    ):
        reached = f"{about}, and under which names and addresses it is reached"
        purpose.add_argument(option, dest="purpose", type=_reached(of), metavar="ADDRESS,...", help=reached)
    front, about = authority.HANDOFF_FRONT, "a hand-off's front"
    purpose.add_argument("--handoff-front", dest="purpose", action="store_const", const=front, help=about)
    parser.set_defaults(purpose=authority.OVERLAY)
    about = "how long the certificate is valid, 0.00001 to 3650 (default: %(default)s)"
    parser.add_argument("--days", type=_days, default=365.0, metavar="DAYS", help=about)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")


def _add_authority(parser: Arguments, about: str) -> None:
    default = Path("overlay-authority")
    parser.add_argument(
        "--authority", type=Path, default=default, metavar="FOLDER", help=f"{about} (default: %(default)s)"
    )


def _reached(of: Callable[[Sequence[str]], Purpose]) -> Callable[[str], Purpose]:
    def purpose(text: str) -> Purpose:
        addresses = [each.strip() for each in text.split(",")]
        for each in addresses:
            if not authority.is_address(each):
                accepted = "IP addresses and host names: 192.0.2.1,etcd.example"
                raise argparse.ArgumentTypeError(f"{each!r}: accepted: {accepted}")
        return of(addresses)

    return purpose


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = 0.0
    if not 0.00001 <= days <= 3650:
        raise argparse.ArgumentTypeError(f"{text}: accepted: 0.00001 to 3650")
    return days


def _enrol(options: Enrol) -> None:
    folder = authority.enrol(options.authority, options.name, options.days, options.purpose)
    print(json.dumps({"name": options.name, "folder": str(folder)}, indent=2) if options.json else folder)


def _authorize(options: Authorize) -> None:
    changed = plane.change(["authorize", "--as", options.part, *_asked(options)])
    _tell(changed, options.json)


def _revoke(options: Revoke) -> None:
    _tell(plane.change(["revoke", *_asked(options)]), options.json)


def _asked(options: Authorize | Revoke) -> list[str]:
    root = options.authority / authority.ADMINISTRATOR
    reached = plane.reached(options.endpoints, root, insecure=False)
    return [*reached, *(["--dry-run"] if options.dry_run else []), *options.names]


def _tell(changed: Any, as_json: bool) -> None:
    print(json.dumps(changed, indent=2) if as_json else "\n".join(changed["changes"]) or "nothing to change")
