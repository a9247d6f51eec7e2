"""The command line of ``tributary``."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from ipaddress import ip_network
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from command import accounts, box, console, console_url, link, lists, mapping, monitor, show, steering, trial
from command.lists import Listing, now, show_list
from command.show import Listed, Selection
from tributary.api.documents import HtbClass, Link, Session, Subflow
from tributary.settings.cli import Arguments, Contradiction, Subcommands, parsed_by
from tributary.settings.errors import CommandError, Exit, invalid_value
from tributary.settings.files import drop_ins
from tributary.settings.hosts import Network
from tributary.settings.units import PositiveRate

if TYPE_CHECKING:
    from command import remote

_FOLDER = Path("/etc/tributary")
_QUICK = frozenset(
    {
        *("status", "links", "sessions", "rules", "classes", "limit", "explain", "link", "devices"),
        *("accounts", "monitor", "plan", "check", "try", "console", "version"),
    }
)
"""Commands that need no keys of home routers and no doctor, whose modules take a quarter of the time to start."""

_DESCRIPTION = """\
Shows what runs on this box, a gateway or a home router, and steers it.

With --remote, before the command, 'status', 'links', 'devices', 'sessions', 'rules' and 'explain' show another box:
they ask its console (tributary-console). Where its reading is closed, TRIBUTARY_TOKEN has what 'tributary console
token' prints there.

  tributary --remote gw1 sessions --watch
  TRIBUTARY_TOKEN=... tributary --remote https://gw1.example.net:8480 status
"""

_EXIT_CODES = """\
exit codes:
  0   done
  1   for try: the settings were not confirmed, and are those of before
  64  wrong arguments or settings; the message says what is accepted
  66  a file cannot be read
  69  what is asked does not run here, or something is missing
  71  the system refused an operation
  75  a router of that name is enrolled already, or a port is forwarded to another router
  77  not root, nor, to ask, in the group tributary; with --remote no token, or a wrong one
"""

_STATUS = """\
Shows which programs of Tributary run here, and what they do; or all that one of them says of itself, as JSON.
"""

_LINKS = """\
Shows the access links of a home router, or the paths of a gateway to its clients. What is wrong with a link, and what
would help, follows below the table.
"""

_DEVICES = """\
Shows the devices of a home router's LAN, and what passed between each of them and the router since it was seen first,
or came back after a day of silence. On a home router whose settings have 'lan'.
"""

_ORDERS = ("age", "client", "throttled", "sent", "received")
"""Columns by which the throttler sorts all sessions."""
_SESSIONS = """\
Shows the sessions of Multipath TCP that the throttler sees, the first 1,000 unless --limit asks for more; or with a
token that session's subflows. On a gateway.
"""

_RULES = """\
Shows the rules of the running throttler: which apply now, to how many subflows, and how much of each quota was used by
the client that has used most. On a gateway.
"""

_CLASSES = """\
Shows the HTB classes of the throttler: their rates, what passed, and what they dropped. On a gateway.
"""

_LIMIT = """\
Limits a path of the running throttler to a rate, for all sessions together that have another subflow as well: MPTCP
moves their load there, and no connection breaks. 'none' lifts the limit. 'throttler reload' lifts all limits, but those
of --save, which are a file each beside the policy, in throttler.d; 'none' removes that of its path. Needs root.

  tributary limit lte 2mbit
  tributary limit lte 2mbit --save
  tributary limit lte none
"""

_MONITOR = """\
Prints what there is, and then each change of services, links and sessions, a line each, until Ctrl-C. With --json each
line is a JSON object.
"""


_EXPLAIN = """\
On a gateway: says which rule applies to each subflow of a session, and why the rules before it do not; the session is
named by its token, or one subflow by its ends. On a home router: says what is wrong with a link, and what would help.

  tributary explain 1a2b3c4d
  tributary explain 10.0.1.1:3128 10.0.1.2:40000
  tributary explain lte
"""

_PLAN = """\
Prints what the settings in a folder would change now: the commands and rules of throttler, router and gateway, of those
whose file is there. Changes nothing.
"""

_CHECK = """\
Reads throttler.toml, router.toml, gateway.toml and squid.toml in a folder, and says of each that is there whether it is
valid. The converter's: tributary-converter --check --config FILE. The console's: tributary-console check FILE.
"""

_VERSION = """\
Prints the version of Tributary, and those of what runs.
"""


def main(words: Sequence[str]) -> int:
    """Run one command; raises CommandError as the commands do."""
    return parser(quick=not _QUICK.isdisjoint(words[:1])).dispatch(words)


def parser(*, quick: bool = False) -> Arguments:
    """All commands and their arguments; or only those that start quickly."""
    made = Arguments(prog="tributary", description=_DESCRIPTION, epilog=_EXIT_CODES)
    made.add_shared(
        "remote", type=console_url.url, metavar="HOST[:PORT]", help="another box, whose console is asked (port 8480)"
    )
    commands = Subcommands(made, _EXIT_CODES)
    command = commands.add
    status = command("status", _status, "what runs here", _STATUS)
    status.add_argument("service", nargs="?", choices=tuple(box.PROGRAMS), help="all about this one")
    links = command("links", _links, "links or paths", _LINKS)
    devices = command("devices", _devices, "the LAN's devices, and what they use", _DEVICES)
    sessions = command("sessions", _sessions, "sessions, or one's subflows", _SESSIONS)
    sessions.add_argument("token", nargs="?", metavar="TOKEN", help="show this session's subflows")
    clients = parsed_by(ip_network, "an address, or a network without host bits")
    sessions.add_argument("--client", type=clients, metavar="NETWORK", help="only those of these clients")
    sessions.add_argument("--path", metavar="NAME", help="only those with a subflow on this path")
    sessions.add_argument("--throttled", action="store_true", help="only those with a throttled subflow")
    rules = command("rules", _rules, "the throttler's rules", _RULES)
    classes = command("classes", _classes, "the throttler's HTB classes", _CLASSES)
    limit = command("limit", _limit, "limit a path's rate", _LIMIT)
    limit.add_argument("path", metavar="PATH", help="its name in the throttler's policy")
    limit.add_argument("rate", type=_rate, metavar="RATE|none", help="such as 5mbit")
    limit.add_argument("--save", action="store_true", help="also after a reload or restart of the throttler")
    limit.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    explain = command("explain", _explain, "why a subflow is throttled, or a link down", _EXPLAIN)
    explain.add_argument("which", nargs="+", metavar="TOKEN | LOCAL REMOTE | LINK", help="a session, subflow or link")
    link.add(commands)
    if not quick:
        # Not at the top: see _QUICK.
        from command import routers

        routers.add(commands)
    accounts.add(commands)
    if not quick:
        import doctor.__main__

        commands.adopt("doctor", doctor.__main__.parser(), "examine this machine")
    changes = command("monitor", monitor.monitor, "print changes as they come", _MONITOR)
    for name, act, about, text in (
        ("plan", _plan, "what the settings would change", _PLAN),
        ("check", _check, "whether the settings are accepted", _CHECK),
    ):
        command(name, act, about, text).add_argument(
            "folder", nargs="?", type=Path, default=_FOLDER, help=f"default: {_FOLDER}"
        )
    trial.add(commands)
    console.add(commands, _EXIT_CODES)
    version = command("version", _version, "which version this is", _VERSION)
    for each in (links, devices, sessions, rules, classes):
        lists.add_arguments(each)
    for each in (status, limit, explain, changes, version):
        each.add_argument("--json", action="store_true", help="JSON instead of text (docs/api.md)")
    return made


def _rate(text: str) -> PositiveRate | None:
    return None if text == "none" else PositiveRate.argument(text)


def _status(service: str | None, json: bool, remote: str | None) -> None:
    if service and remote:
        raise Contradiction(f"{service}: not accepted with --remote")
    if service is not None:
        print(dumps(box.PROGRAMS[service](), indent=2))
        return
    lists.show("services", now(_box(remote).services()), show.SERVICES, Selection(json))


def _box(url: str | None) -> "box.Answers | remote.Answers":
    """This box, or the one whose console is at ``url``."""
    if url is None:
        return box.Answers()
    # Not at the top: it takes a client of HTTP, and the console's documents.
    from command import remote

    return remote.Answers(url)


def _links(listing: Listing, remote: str | None) -> None:
    if listing.watch is not None:
        show_list("links", lambda: _box(remote).links(), show.LINKS, listing, fastest_first=False)
        return
    answers = _box(remote)
    links = answers.links()
    show_list("links", lambda: links, show.LINKS, listing)
    if not listing.json:
        for each in links.documents:
            for sentence in each.advice:
                print(f"{each.name}: {sentence}")
        for sentence in answers.notes():
            print(sentence)


def _devices(listing: Listing, remote: str | None) -> None:
    show_list("devices", lambda: _box(remote).devices(), show.DEVICES, listing)


def _sessions(
    token: str | None, client: Network | None, path: str | None, throttled: bool, listing: Listing, remote: str | None
) -> None:
    def look() -> Listed[Session]:
        page = partial(_box(remote).sessions, **_query(token, client, path, throttled, listing.sort))
        return lists.first(page, listing.limit)

    if token is not None:
        show_list("subflows", partial(_subflows, token, look), show.SUBFLOWS, listing)
    else:
        show_list("sessions", look, show.SESSIONS, listing)


def _subflows(token: str, look: Callable[[], Listed[Session]]) -> Listed[Subflow]:
    found = look()
    for session in found.documents:
        if session.token == token:
            return Listed(session.subflows, found.moment)
    raise CommandError(Exit.USAGE, f"{token}: no session has this token: see tributary sessions")


def _query(
    token: str | None, client: Network | None, path: str | None, throttled: bool, sort: str | None
) -> dict[str, Any]:
    """What the throttler is asked for: what its answer cannot hold would not be found in it."""
    given: dict[str, Any] = {
        "token": token,
        "clients": [str(client)] if client else None,
        "path": path,
        "throttled": throttled or None,
    }
    order = (sort or "").removeprefix("-")
    if token is None and order in _ORDERS:
        given |= {"sort": order, "descending": str(sort).startswith("-")}
    return {key: value for key, value in given.items() if value is not None}


def _rules(listing: Listing, remote: str | None) -> None:
    show_list("rules", lambda: _box(remote).rules(), show.RULES, listing)


def _classes(listing: Listing) -> None:
    def look() -> Listed[HtbClass]:
        status = box.throttler()
        return Listed(status.classes, status.uptime_s, status.classes_total)

    show_list("classes", look, show.CLASSES, listing)


def _limit(path: str, rate: PositiveRate | None, save: bool, dry_run: bool, json: bool) -> None:
    """Without a rate it lifts the limit."""
    if save and rate is None:
        raise Contradiction("--save: accepted: with a rate")
    status, name = box.throttler(), steering.limit_name(path)
    policy = Path(status.policy)
    if dry_run:
        fits = [each.name for each in mapping.paths(status) if rate or each.limit]
        if path not in fits and (rate or not steering.is_saved(policy, name)):
            raise invalid_value("limit", "PATH", path, f"a path{'' if rate else ' with a limit'}: {', '.join(fits)}")
        would = "no limit" if rate is None else f"at most {rate}"
        print(f"# {path} would get {would}" + (f", also in {drop_ins(policy)}" if save else ""))
        return
    was_saved = rate is None and steering.forget(policy, name)
    with suppress(CommandError) if was_saved else nullcontext():
        steering.limit(path, rate)
    if rate is not None and save:
        steering.save(policy, name, "[[rules]]", steering.limit_rule(path, rate))
    paths = [each for each in mapping.paths(box.throttler()) if each.name == path]
    lists.show("links", now(paths), show.LINKS, Selection(json))


def _explain(which: list[str], json: bool, remote: str | None) -> None:
    answers = _box(remote)
    if len(which) == 1:
        with suppress(CommandError):
            for each in answers.links().documents:
                if each.kind == "wan" and each.name == which[0]:
                    _explain_link(each, json)
                    return
    if len(which) > 2:
        raise invalid_value("explain", "argument", " ".join(which), "a token, or the two ends of a subflow")
    answer = answers.explain(*which)
    if json:
        show.print_object(**answer)
        return
    for subflow in answer["subflows"]:
        print(f"{subflow['subflow']} on path {subflow['path'] or '(none)'} (session {subflow['token']})")
        for result in subflow["rules"]:
            print(f"  {result['rule']}: " + ("applies" if result["applies"] else f"does not apply: {result['reason']}"))
        if not any(result["applies"] for result in subflow["rules"]):
            print("  no rule applies: it is not throttled")
        if subflow["steering"]:
            print(f"  steering: {subflow['steering']}")


def _explain_link(found: Link, as_json: bool) -> None:
    lines = (f"{found.name}: {found.condition}", *(f"  {sentence}" for sentence in found.advice))
    show.print_either(lines, as_json, links=[found.model_dump(mode="json")], total=1)


def _plan(folder: Path) -> int:
    # Not at the top: the other commands do not need what it plans with.
    from command import files

    return files.plan(folder)


def _check(folder: Path) -> int:
    from command import files

    return files.check(folder)


def _version(json: bool) -> None:
    versions = box.versions()
    show.print_either((f"{name} {each}" for name, each in versions.items()), json, versions=versions)
