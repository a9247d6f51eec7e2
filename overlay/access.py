"""Certificates and permissions: the commands enrol, authorize and revoke."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from overlay import control, programs
from overlay.purposes import (
    ADMINISTRATOR,
    HANDOFF_FRONT,
    MEMBER,
    NAME,
    OVERLAY,
    Purpose,
    handoff_back_end,
    handoff_switch,
    is_address,
    member,
)
from overlay.reader import etcd
from tributary.settings.cli import Arguments, Subcommands, parsed_by, show
from tributary.settings.values import require

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


def add(commands: Subcommands) -> None:
    """Adds the three commands."""
    enrolment = commands.add("enrol", _enrol, "a certificate for a node", _ENROL)
    enrolment.add_argument("name", type=_name, metavar="NAME", help="the holder's name")
    _add_authority(enrolment, "the authority, made by the first call")
    _add_purposes(enrolment)
    about = "how long the certificate is valid, 0.00001 to 3650 (default: %(default)s)"
    days = parsed_by(_days, "0.00001 to 3650")
    enrolment.add_argument("--days", type=days, default=365.0, metavar="DAYS", help=about)
    about = "give a node, a controller or a reader its permissions in etcd"
    authorize = commands.add("authorize", _authorize, about, _AUTHORIZE)
    roles = ("node", "controller", "reader")
    about = "their role: node, controller or reader (default: %(default)s)"
    authorize.add_argument("--as", dest="role", choices=roles, default="node", metavar="ROLE", help=about)
    about = "take its permissions from a node, a controller or a reader"
    revoke = commands.add("revoke", _revoke, about, _REVOKE)
    for each in (authorize, revoke):
        each.add_argument("names", type=_name, nargs="+", metavar="NAME", help="the names in their certificates")
        _add_authority(each, "the authority, with the certificate of root")
        each.add_argument("--endpoints", required=True, metavar="URL,...", help="etcd's members")
        each.add_argument("--dry-run", action="store_true", help="print the changes without making them")
        each.gather("reached", _reached)
    for each in (enrolment, authorize, revoke):
        each.add_argument("--json", action="store_true", help="one JSON object on standard output")


def _add_purposes(parser: Arguments) -> None:
    purpose = parser.add_mutually_exclusive_group()
    for option, of, about in (
        ("--etcd", member, "a member of etcd"),
        ("--handoff-switch", handoff_switch, "a hand-off's switch"),
        ("--handoff-back-end", handoff_back_end, "a hand-off's back end"),
    ):
        help_ = f"{about}, with its host names and addresses"
        purpose.add_argument(option, dest="purpose", type=_purpose(of), metavar="ADDRESS,...", help=help_)
    about = "a hand-off's front"
    purpose.add_argument("--handoff-front", dest="purpose", action="store_const", const=HANDOFF_FRONT, help=about)
    parser.set_defaults(purpose=OVERLAY)


def _add_authority(parser: Arguments, about: str) -> None:
    default = Path("overlay-authority")
    parser.add_argument(
        "--authority", type=Path, default=default, metavar="FOLDER", help=f"{about} (default: %(default)s)"
    )


def _purpose(of: Callable[[Sequence[str]], Purpose]) -> Callable[[str], Purpose]:
    def purpose(text: str) -> Purpose:
        addresses = [each.strip() for each in text.split(",")]
        for each in addresses:
            if not is_address(each):
                accepted = "IP addresses and host names: 192.0.2.1,etcd.example"
                raise argparse.ArgumentTypeError(f"{each!r}: accepted: {accepted}")
        return of(addresses)

    return purpose


def _days(text: str) -> float:
    days = float(text)
    require(0.00001 <= days <= 3650)
    return days


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name: accepted: 1 to 64 of A-Z a-z 0-9 . _ , + -")
    if text in (ADMINISTRATOR, MEMBER, "ca.pem", "ca.key"):
        raise argparse.ArgumentTypeError(f"{text}: accepted: a name that the authority does not use itself")
    return text


def _enrol(name: str, authority: Path, purpose: Purpose, days: float, json: bool) -> None:
    # Not at the top: no other command makes certificates.
    from overlay.authority import enrol

    folder = str(enrol(authority, name, days, purpose))
    show({"name": name, "folder": folder}, [folder], as_json=json)


def _authorize(names: Sequence[str], role: str, reached: Sequence[str], json: bool) -> None:
    _change(["authorize", f"--as={role}", *reached, *names], json)


def _revoke(names: Sequence[str], reached: Sequence[str], json: bool) -> None:
    _change(["revoke", *reached, *names], json)


def _change(words: Sequence[str], as_json: bool) -> None:
    changed = programs.ask(control.PROGRAM, words)
    show(changed, changed["changes"] or ["nothing to change"], as_json=as_json)


def _reached(authority: Path, endpoints: str, dry_run: bool) -> list[str]:
    """How the program gets to etcd, and that it changes nothing in a dry run."""
    return [*etcd.arguments(endpoints, authority / ADMINISTRATOR), *(["--dry-run"] if dry_run else [])]
