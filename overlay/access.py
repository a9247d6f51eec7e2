"""Certificates and permissions: the commands enrol, authorize and revoke."""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlay import authority, control
from overlay.authority import Purpose
from tributary.settings.cli import Arguments

_ENROL = """\
Makes a certificate signed by the overlay's own authority, and prints its folder (ca.pem, node.pem, node.key): copy it
to the node, and name it there with --identity. The first call makes the authority, and next to it the certificate of
etcd's user root in the folder root. Only their owner can read the folders; whoever has the authority's can sign for
every name. A name with a folder is refused: move it away for a new certificate. After the first authorize, a
certificate alone gives no access. In a request hand-off each end checks the role in the other's certificate.
"""
_AUTHORIZE = """\
Gives each NAME its permissions in etcd, by a user and a role of this name: all may read the overlay's keys; a node
writes those that bear its name, a controller the tables, the report and its own key in the election. From the first
call on etcd refuses everybody else: in a running overlay, authorize all of them in one go. It acts as etcd's user root,
with the certificate that enrol made. etcd must run with --client-cert-auth: otherwise nobody gets in any more, not even
root.
"""
_REVOKE = """\
Deletes the user, the role and the keys of each NAME: a node leaves all tables at once, a controller is replaced by
another one. The certificate stays valid, and counts again if the name is authorized again.
"""
_NAMES = "the names in their certificates"


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
    """``overlay authorize``; ``role`` is node, controller or reader."""

    names: Sequence[str]
    role: str
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
    """Adds the three commands; ``codes`` is the help about exit codes."""
    _add_enrol(commands.add_parser("enrol", help="a certificate for a node", description=_ENROL, epilog=codes))
    about = "give a node, a controller or a reader its permissions in etcd"
    authorize = commands.add_parser("authorize", help=about, description=_AUTHORIZE, epilog=codes)
    authorize.set_handler(Authorize, _authorize)
    authorize.add_argument("names", nargs="+", metavar="NAME", help=_NAMES)
    roles = ("node", "controller", "reader")
    about = "their role: node, controller or reader (default: %(default)s)"
    authorize.add_argument("--as", dest="role", choices=roles, default="node", metavar="ROLE", help=about)
    about = "take its permissions from a node, a controller or a reader"
    revoke = commands.add_parser("revoke", help=about, description=_REVOKE, epilog=codes)
    revoke.set_handler(Revoke, _revoke)
    revoke.add_argument("names", nargs="+", metavar="NAME", help=_NAMES)
    for each in (authorize, revoke):
        _add_authority(each, "the authority, with the certificate of root")
        each.add_argument("--endpoints", required=True, metavar="URL,...", help="etcd's members")
        each.add_argument("--dry-run", action="store_true", help="print the changes without making them")
        each.add_argument("--json", action="store_true", help="one JSON object on standard output")


def _add_enrol(parser: Arguments) -> None:
    parser.set_handler(Enrol, _enrol)
    parser.add_argument("name", metavar="NAME", help="the holder's name")
    _add_authority(parser, "the authority, made by the first call")
    purpose = parser.add_mutually_exclusive_group()
    for option, of, about in (
        ("--etcd", authority.member, "a member of etcd"),
        ("--handoff-switch", authority.handoff_switch, "a hand-off's switch"),
        ("--handoff-back-end", authority.handoff_back_end, "a hand-off's back end"),
    ):
        help_ = f"{about}, with its host names and addresses"
        purpose.add_argument(option, dest="purpose", type=_purpose(of), metavar="ADDRESS,...", help=help_)
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


def _purpose(of: Callable[[Sequence[str]], Purpose]) -> Callable[[str], Purpose]:
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
    changed = control.change(["authorize", "--as", options.role, *_arguments(options)])
    _print(changed, options.json)


def _revoke(options: Revoke) -> None:
    _print(control.change(["revoke", *_arguments(options)]), options.json)


def _arguments(options: Authorize | Revoke) -> list[str]:
    root = options.authority / authority.ADMINISTRATOR
    etcd = control.etcd_arguments(options.endpoints, root, insecure=False)
    return [*etcd, *(["--dry-run"] if options.dry_run else []), *options.names]


def _print(changed: Any, as_json: bool) -> None:
    print(json.dumps(changed, indent=2) if as_json else "\n".join(changed["changes"]) or "nothing to change")
