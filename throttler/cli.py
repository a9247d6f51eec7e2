"""The command line of the throttler."""

import sys
import tomllib
from collections.abc import Sequence
from json import dumps
from pathlib import Path

from tributary.api.places import THROTTLER
from tributary.daemons import directories, logs
from tributary.daemons.control import Response
from tributary.daemons.text import plural
from tributary.settings import metrics_argument
from tributary.settings.cli import Arguments, Subcommands, need_root, program
from tributary.settings.errors import invalid_value
from tributary.settings.hosts import Target

_STATE = Path("/var/lib/tributary/throttler")

_DESCRIPTION = """\
Limits the rate of chosen subflows of Multipath TCP sessions, so that MPTCP moves their load to the other subflows.

'run' is the daemon. 'set', 'unset' and 'reload' change the policy of the daemon of this network namespace; tributary(8)
shows what it does.
"""

_EXIT_CODES = """\
exit codes:
  0   done; for run: stopped by SIGTERM or SIGINT, and everything it installed was removed
  64  wrong arguments, or something in a policy is not accepted; the message names the file, key and value
  66  the policy file cannot be read
  69  nft, tc or ip is not installed; for set, unset and reload: no throttler runs here
  71  the kernel refused an operation
  75  a throttler already runs in this network namespace, an interface has a root qdisc that is not the throttler's, or
      the port for metrics is taken
  77  not root
"""

_RUN = f"""\
Watches for MPTCP subflows, decides by the policy which ones to throttle, and puts those into HTB classes. Needs root.

Prints the line 'ready' on standard output when it sees every new session; logs on standard error, one line an event.
SIGTERM or SIGINT ends it: it takes its nft tables, its qdiscs and its IFB device away and exits with 0. SIGHUP makes
it read the policy file again, as 'throttler reload' does. Before 'ready' every refusal leaves the system as it was.

Sources:
  kernel    the kernel's own MPTCP events: for a host on which the sessions end, such as the converter; the cheaper one
  sniffer   the handshakes on the wire, for a box on the path
  auto      kernel if MPTCP sockets are there when it starts, or IP forwarding is off, else sniffer (default)
With either one, sessions that end on this host and are older than the throttler are throttled at once.

It installs the nft tables 'inet throttler' and 'netdev throttler', the root qdisc 'htb 5452:' on the interfaces that
rules or links name, and, for uploads, the IFB device 'tributary-up'. What a killed throttler left of these it removes
when it starts. It touches nothing else, and refuses to start on an interface that has somebody else's root qdisc.

How much of each quota was used outlives it, in quotas.json in the state directory ($STATE_DIRECTORY, or
{_STATE}).

example policy (docs/throttler-reference.md explains every key):
  [paths.wired]
  interface = "eth0"        # a client-side interface of this host; name them all, each as a path

  [paths.wireless]
  interface = "eth1"

  [[rules]]
  name = "wired-slow"
  min_subflows = 2          # sessions with at least so many active subflows (a backup is not active)
  path = "wired"            # ... have their subflows on this path ...
  rate = "5mbit"            # ... limited to this rate each: bit, kbit, mbit, gbit per second
"""

_SET = """\
Adds a rule to the running throttler, or puts another one in the place of the rule of that name; nothing is written to
the policy file, and 'throttler reload' goes back to it. A new rule comes before all others, or, with --last, after
them. Keys are those of [[rules]] in a policy; values are written as there, text may go without its quotes. Needs root.

  throttler set evening path=dsl rate=2mbit hours=18:00-23:00
  throttler set proxy-only path=lte ports=[3128] shared_by=client rate=8mbit direction=both
  throttler set wired-slow path=wired rate=5mbit --dry-run      # which subflows would it be about?
  throttler set wired-slow path=wired rate=5mbit dry_run=true   # count them from now on
"""

_UNSET = """\
Removes a rule from the running throttler, one that was set or one of the policy file, until 'throttler reload'. Its
subflows fall to the next rule that fits them, or are released. Needs root.
"""

_RELOAD = """\
Makes the running throttler read its policy file again. Rules that were set are gone. If something in the file is not
accepted, nothing changes and the message says what. No connection is broken, and no packet dropped unless an interface
gets its first rule. Needs root.
"""

_PLAN = """\
Prints what a policy would do to the kernel: the text for tc and nft when the throttler starts, when each rule throttles
and releases a subflow, and when it stops. Nothing is asked of the kernel, nothing is changed; needs no root.
"""


def parser() -> Arguments:
    """All commands and their arguments."""
    made = Arguments(prog="throttler", description=_DESCRIPTION, epilog=_EXIT_CODES)
    command = Subcommands(made, _EXIT_CODES).add
    run = command("run", _run, "throttle until stopped", _RUN)
    run.add_argument("--policy", type=Path, required=True, metavar="FILE", help="the policy, a TOML file")
    run.add_argument("--source", choices=("auto", "kernel", "sniffer"), default="auto", help="see above")
    metrics_argument.add(run)
    logs.add_argument(run)
    run.add_argument("--state-directory", type=Path, metavar="DIRECTORY", help="where used quotas are kept")
    run.add_argument("--dry-run", action="store_true", help="do as 'plan' does, and change nothing; needs no root")
    change = command("set", _set, "add or change a rule at run time", _SET)
    change.add_argument("name", metavar="RULE")
    change.add_argument("keys", nargs="*", metavar="KEY=VALUE")
    change.add_argument("--last", action="store_true", help="put a new rule after all others")
    change.add_argument("--dry-run", action="store_true", help="show its subflows, and change nothing")
    remove = command("unset", _unset, "remove a rule at run time", _UNSET)
    remove.add_argument("name", metavar="RULE")
    reload = command("reload", _reload, "read the policy file again", _RELOAD)
    for live in (change, remove, reload):
        live.add_argument("--json", action="store_true", help="one JSON document: the rules, and what has changed")
    plan = command("plan", _plan, "show what a policy would install", _PLAN)
    plan.add_argument("policy", type=Path, metavar="FILE", help="the policy, a TOML file")
    return made


def _run(
    policy: Path, source: str, metrics: Target | None, log: str, state_directory: Path | None, dry_run: bool
) -> None:
    if dry_run:
        _plan(policy)
        return
    # Not at the top: the commands that ask the daemon need no policy.
    from throttler.policy import model

    asked = model.read(policy)
    need_root("throttler run")
    from throttler.service import daemon, start

    state = state_directory or directories.state(_STATE)
    start.run(asked, source, daemon.Options(policy, metrics, logs.Format(log), state))


def _plan(policy: Path) -> None:
    from throttler import dry_run
    from throttler.policy import model
    from tributary.kernel import interfaces

    asked = model.read(policy)
    print(dry_run.text(asked), end="")
    for missing in sorted(set(asked.interfaces) - interfaces.numbers().keys()):
        print(
            f"throttler: note: this host has no interface {missing}: its path has no subflows until it has",
            file=sys.stderr,
        )


def _set(name: str, keys: Sequence[str], last: bool, dry_run: bool, json: bool) -> None:
    """``keys`` are KEY=VALUE each."""
    values = dict(_key(text) for text in keys)
    if "name" in values:
        raise invalid_value(
            "set", "argument", f"name={values['name']}", "the rule's name as the first argument, and no other"
        )
    rule = {"name": name, **values}
    if dry_run:
        _would(name, THROTTLER.ask("preview", rule=rule, last=last), json)
        return
    _changed(THROTTLER.ask("set", rule=rule, last=last), json)


def _would(name: str, answer: Response, as_json: bool) -> None:
    if as_json:
        print(dumps(answer, indent=2))
        return
    act, whose = "throttle" if answer["acts"] else "let pass", plural(answer["sessions"], "session")
    clients = plural(answer["clients"], "client address", "client addresses")
    print(f"# {name} would {act} {plural(answer['subflows'], 'subflow')} of {whose}, {clients}")
    for other, count in answer["taken"].items():
        print(f"# {count:,} of them fall under {other} now")
    if answer["released"]:
        print(f"# {plural(answer['released'], 'subflow')} would no longer fall under it")
    for each in answer["first"]:
        print(f"{each['subflow']} on path {each['path']} (session {each['token']})")
    if answer["subflows"] > len(answer["first"]):
        print(f"# the first {len(answer['first'])}")


def _key(text: str) -> tuple[str, object]:
    """A key and its value: what TOML reads, or else text."""
    key, separator, value = text.partition("=")
    if not separator:
        raise invalid_value("set", "argument", text, "KEY=VALUE, such as rate=5mbit")
    try:
        read = tomllib.loads(f"value = {value}")["value"]
        dumps(read)
    except (ValueError, RecursionError, TypeError):
        # JSON has neither dates nor times; no key takes one, and the daemon says what it accepts instead of the text.
        return key, value
    return key, read


def _unset(name: str, json: bool) -> None:
    _changed(THROTTLER.ask("unset", rule=name), json)


def _reload(json: bool) -> None:
    _changed(THROTTLER.ask("reload"), json)


def _changed(answer: Response, as_json: bool) -> None:
    if as_json:
        print(dumps(answer, indent=2))
        return
    for rule in answer["rules"]:
        keys = (f"{key}={_plain(value)}" for key, value in rule.items() if key != "name")
        print(f"{rule['name']}: {' '.join(keys)}")
    print(f"{answer['elements_added']} subflows entered a class, {answer['elements_removed']} left one")
    if "not_steered" in answer:
        print(f"throttler: not steered: {answer['not_steered']}", file=sys.stderr)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else dumps(value)


main = program(parser)
