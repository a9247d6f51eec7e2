"""The console's logins: ``tributary console``."""

import getpass
import os
import sys

from command import show
from tributary.api.places import CONSOLE
from tributary.settings.cli import Subcommands
from tributary.settings.errors import CommandError, Exit

_LOGIN = """\
Prints an address of the console's page that logs a browser in, once, within five minutes. Who has logged in may change
limits and links for twelve hours; the journal names them. Needs root.
"""

_PASSWORD = """\
Sets the password of the console's page, or with --remove takes it away: then that of 'password_hash' in the settings is
good, or only 'login' logs in. All browsers are logged out. The password is read from the terminal, or from standard
input. Needs root.
"""

_TOKEN = """\
Prints a new token of the console's API, with which a program may look and change nothing, also where reading is closed;
or with --remove takes a name's token away. 'tributary --remote' sends the one in TRIBUTARY_TOKEN. Needs root.
"""

_TOKENS = """\
Shows the names of the API's tokens. Needs root.
"""

_LOGOUT = """\
Logs all browsers out of the console's page. Needs root.
"""


def add(commands: Subcommands, epilog: str) -> None:
    """Add the commands."""
    inside = Subcommands(commands.group("console", "who may steer by the console's page"), epilog)
    login = inside.add("login", _login, "print an address that logs in", _LOGIN)
    login.add_argument("--name", default=os.environ.get("SUDO_USER") or "root", help="who the journal says it was")
    login.add_argument("--json", action="store_true", help="JSON instead of text")
    password = inside.add("password", _password, "set the page's password", _PASSWORD)
    password.add_argument("--remove", action="store_true", help="take it away")
    token = inside.add("token", _token, "print a token of the API", _TOKEN)
    token.add_argument("name", metavar="NAME", help="whose it is")
    token.add_argument("--remove", action="store_true", help="take it away")
    tokens = inside.add("tokens", _tokens, "show the names of the API's tokens", _TOKENS)
    tokens.add_argument("--json", action="store_true", help="JSON instead of text")
    inside.add("logout", _logout, "log all browsers out", _LOGOUT)


def _login(name: str, json: bool) -> None:
    pages = CONSOLE.ask("login", name=name)["pages"]
    show.print_either(pages, json, pages=pages)


def _password(remove: bool) -> None:
    CONSOLE.ask("password", password="" if remove else _asked())


def _asked() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    password = getpass.getpass("new password: ")
    if getpass.getpass("once more: ") != password:
        raise CommandError(Exit.USAGE, "these were two different ones: nothing has changed")
    return password


def _token(name: str, remove: bool) -> None:
    if remove:
        CONSOLE.ask("remove-token", name=name)
        return
    print(CONSOLE.ask("token", name=name)["token"])


def _tokens(json: bool) -> None:
    names = CONSOLE.ask("tokens")["tokens"]
    show.print_either(names, json, tokens=names)


def _logout() -> None:
    CONSOLE.ask("logout")
