"""The command line: throttler run, throttler status."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from settings.entry import Arguments, need_root
from throttler import dry_run, status
from throttler.policy import model as policy
from throttler.service import control
from throttler.shaping import apply

_DESCRIPTION = """\
Holds chosen subflows of Multipath TCP sessions to a rate, so that MPTCP moves their load to the other subflows.
"""

_EXIT_CODES = """\
exit codes:
  0   done; for run: stopped by SIGTERM, SIGINT or SIGHUP, and everything it installed was removed
  64  wrong arguments, or something in the policy file is not accepted; the message names the file, key and value
  66  the policy file cannot be read
  69  nft or tc is not installed; an interface went away; for status: no throttler runs here
  71  the kernel refused an operation
  75  a throttler already runs in this network namespace, or an interface has a root qdisc that is not the throttler's
  77  run was not started as root

Before 'ready' is printed every refusal leaves the system as it was.
"""

_RUN = """\
Watches the client-side interfaces for MPTCP handshakes, decides by the policy which subflows to hold, and holds each
in an HTB class of its own. Needs root.

Prints the line 'ready' on standard output when it sees every new session, and logs each hold and release as one line
on standard error. SIGTERM, SIGINT or SIGHUP ends it: it takes its nft table and its qdiscs away and exits with 0.

It installs the nft table 'inet throttler' and, on the interfaces that rules name, the root qdisc 'htb 5452:'. What a
killed throttler left of these it removes when it starts. It touches nothing else, and refuses to start on an interface
that has somebody else's root qdisc.

example policy:
  [paths.wired]
  interface = "eth0"        # a client-side interface of this host; name them all, each as a path

  [paths.wireless]
  interface = "eth1"

  [[rules]]
  name = "wired-slow"
  min_subflows = 2          # sessions with at least so many active subflows (a backup is not active)
  path = "wired"            # ... have their subflows on this path ...
  rate = "5mbit"            # ... held to this rate each: bit, kbit, mbit, gbit per second
"""

_STATUS = """\
Asks the throttler of this network namespace what it sees and holds: its sessions by token (the listener's, the
second one that 'ss -ti' shows), their subflows, what each class has sent and dropped, and counters. Any user may ask.
"""


def main(arguments: Sequence[str]) -> int:
    """Run the command in ``arguments``; returns its exit code or raises Failure."""
    options = _parser().parse_args(arguments)
    if options.command == "run":
        return _run(options.policy, options.dry_run)
    return _status(options.json)


def _parser() -> Arguments:
    parser = Arguments(prog="throttler", description=_DESCRIPTION, epilog=_EXIT_CODES)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="throttle until stopped", description=_RUN, epilog=_EXIT_CODES)
    run.add_argument("--policy", type=Path, required=True, metavar="FILE", help="the policy, a TOML file")
    run.add_argument(
        "--dry-run", action="store_true", help="print what would be installed, and change nothing; needs no root"
    )
    ask = commands.add_parser("status", help="what it sees and holds", description=_STATUS, epilog=_EXIT_CODES)
    ask.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    return parser


def _run(file: Path, dry: bool) -> int:
    rules = policy.read(file)
    if dry:
        print(dry_run.text(rules), end="")
        for missing in sorted(set(rules.interfaces) - apply.interfaces()):
            print(f"throttler: note: this host has no interface {missing}: run would refuse it", file=sys.stderr)
        return 0
    policy.check_interfaces(rules, file, apply.interfaces())
    need_root("throttler run")
    # Not at the top: Scapy takes a third of a second to load, and the other commands do not need it.
    from throttler.service import daemon

    daemon.run(rules, file)
    return 0


def _status(as_json: bool) -> int:
    answer = status.with_class_statistics(control.ask())
    if as_json:
        print(json.dumps(answer, indent=2))
    else:
        status.show(answer)
    return 0
