"""The command scripts/doctor: what is wrong with this machine, and how to fix it."""

import shlex
import socket
import sys
import time
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import zip_longest
from json import dumps
from pathlib import Path

from doctor import fixing, lock
from doctor.examination import Role, checks, examine, own_role, path_to
from doctor.findings import Command, Finding, State, fixes
from tributary.settings.cli import Arguments, Contradiction, need_root, program, run
from tributary.settings.errors import CommandError, Exit
from tributary.settings.hosts import host_and_port

_DESCRIPTION = """\
Examines this machine as an appliance: what the kernel offers (by trying it, in a network namespace that is removed
again), its settings, MPTCP, reverse path filters, routing, listeners, fleet, console, firewall, limits, clock. Of each
it says whether it is ok, works with limits (note), or is wrong, and then prints the command that fixes it; or that it
could not be examined (?).

Nothing is changed without --fix.

roles:
  gateway   the converters and the throttler run here (default)
  router    several access links, and a LAN behind it (default where tributary-router runs or is enabled)
  kernel    neither: could this kernel do it?

--record and --metrics write what was found for those who look later: tributary-doctor.timer does so once an hour for
the console's page, and for Prometheus where node_exporter reads such files. The exit code is then 0 once it is written.

With --path it connects to a server from each address that has a way out, and tells whether a path takes the MPTCP
options off, which leaves plain TCP. A Tributary gateway's port is the best one to try.

checks:
  kernel, mptcp     in every role
  integrity         do the kernel's counters tell of displaced bytes, of waits? Two looks, two seconds apart
  settings          the kernel's settings are the appliance's (kernel-config/90-tributary.conf)
  rp_filter         joins may come in by another link than answers would leave by
  routing           router: packets from an access link's address leave by that link
  endpoints         router: MPTCP makes subflows from each of them, or from the tunnels of tributary-router
  listeners         gateway: Squid and the native converter take MPTCP, those that are enabled
  fleet             gateway: routers hear it, where it shares an address with others
  console           it listens, where it is enabled
  firewall, clock   in both; Squid's guard; other programs' rules that drop what home routers' tunnels bring
  limits            gateway: open files, tracked connections

exit codes:
  0   nothing is wrong
  1   something is
  3   nothing is known to be wrong, but something could not be examined, and is marked with ?
  64  wrong arguments
  69  --path: the name has no address
  71  --record, --metrics: the file cannot be written
  77  not root
"""
_MARKS = {State.OK: "ok", State.NOTE: "note", State.WRONG: "WRONG", State.UNKNOWN: "?"}


def parser() -> Arguments:
    """The arguments of the doctor."""
    parser = Arguments(prog="scripts/doctor", description=_DESCRIPTION)
    parser.set_handler(_run)
    roles = [role.value for role in Role]
    parser.add_argument("--role", choices=roles, help="what this machine is (default: see above)")
    parser.add_argument("--only", metavar="CHECK,...", help="only these checks")
    parser.add_argument("--without", metavar="CHECK,...", help="not these checks")
    parser.add_argument("--path", metavar="HOST:PORT", help="only this: does MPTCP get there, from each address?")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the findings to this file, as JSON")
    parser.add_argument("--metrics", type=Path, metavar="FILE", help="write their numbers to this file, for Prometheus")
    parser.add_argument(
        "--fix", action="store_true", help="run the commands that fix what is wrong, then examine again"
    )
    parser.add_argument("--dry-run", action="store_true", help="with --fix: show the commands, run none")
    parser.add_argument("--json", action="store_true", help="print the findings as a JSON array on standard output")
    return parser


def _run(
    role: str | None,
    only: str | None,
    without: str | None,
    path: str | None,
    record: Path | None,
    metrics: Path | None,
    fix: bool,
    dry_run: bool,
    json: bool,
) -> int:
    """``only`` and ``without`` are names of checks with commas, ``path`` is HOST:PORT."""
    if dry_run and not fix:
        raise Contradiction("--dry-run says what --fix would do: accepted: --fix --dry-run")
    need_root("doctor")
    own = Role(role) if role else own_role()
    look = partial(_paths, path) if path else partial(examine, own, _chosen(own, only, without))
    if fix:
        _fix(fixes(look()), dry_run)
    with lock.held(record) if record else nullcontext():
        findings = look()
        if record or metrics:
            # Not at the top: it loads the library for Prometheus.
            from doctor.record import write_findings, write_metrics

            if record:
                write_findings(record, findings, own.value, time.time())
            if metrics:
                write_metrics(metrics, findings, time.time())
    _report(findings, json)
    return 0 if record or metrics else _exit_code({finding.state for finding in findings})


def _exit_code(states: Collection[State]) -> int:
    """What could not be examined may be wrong, and is no good end either."""
    if State.WRONG in states:
        return Exit.WRONG_RESULT
    return Exit.UNDECIDED if State.UNKNOWN in states else 0


def _paths(target: str) -> list[Finding]:
    return [finding for server, port in _servers(target) for finding in path_to(server, port)]


def _chosen(role: Role, *given: str | None) -> list[str]:
    known = checks(role)
    only, without = (each.split(",") if each else [] for each in given)
    for argument, names in (("only", only), ("without", without)):
        for name in names:
            if name not in known:
                accepted = f"accepted with --role {role.value}: {', '.join(known)}"
                raise CommandError(Exit.USAGE, f"--{argument} {name}: {accepted}")
    return [name for name in only or known if name not in without]


def _servers(target: str) -> list[tuple[str, int]]:
    """The first address of each IP version behind ``target``."""
    try:
        host, port = host_and_port(target)
    except ValueError as error:
        accepted = "HOST:PORT, such as gateway.example:3128 or [2001:db8::1]:3128"
        raise CommandError(Exit.USAGE, f"--path {target}: accepted: {accepted}") from error
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:  # the latter for labels that no name can have
        why = getattr(error, "strerror", None) or error
        raise CommandError(Exit.UNAVAILABLE, f"--path {target}: {host}: {why}") from error
    first = {family: (str(address[0]), port) for family, _, _, _, address in reversed(found)}
    return list(first.values())


def _fix(commands: Sequence[Command], dry_run: bool) -> None:
    for command in commands:
        print(f"{'would run' if dry_run else 'running'}: {shlex.join(command)}", file=sys.stderr)
        if not dry_run and (failure := fixing.run(command)):
            print(f"  {failure}", file=sys.stderr)


def _report(findings: Sequence[Finding], as_json: bool) -> None:
    if as_json:
        print(dumps([finding.as_json for finding in findings], indent=2))
        return
    for finding, following in zip_longest(findings, findings[1:]):
        print(f"{_MARKS[finding.state]:5}  {finding.check}: {finding.message}")
        if following is None or (finding.fix, finding.advice) != (following.fix, following.advice):
            for line in (*map(shlex.join, finding.fix), *filter(None, [finding.advice])):
                print(f"         {line}")


main = program(parser)

if __name__ == "__main__":
    run(main, "doctor")
