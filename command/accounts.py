"""``tributary accounts``: bytes by day, client, router and path, out of the converter's access log."""

import json
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from csv import DictWriter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from time import time
from typing import Any

from command import access_log, box, lists, show
from command.access_log import LOG, Log
from command.lists import Listing
from tributary.api.documents import Account
from tributary.settings.cli import Contradiction, Subcommands, whole_number
from tributary.settings.errors import CommandError, Exit, invalid_value
from tributary.settings.hosts import Address
from tributary.settings.privacy import network_of
from tributary.settings.values import as_text, or_none

_BY = ("day", "client", "router", "path")
_USUAL, _USUAL_METRICS = ("day", "client", "path"), ("router", "path")
"""What accounts are by unless ``--by`` says otherwise; as metrics."""
_PATH = or_none(as_text)
_NO_LINE = (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError, OSError)
"""What Python raises for an object that is not of the log; the last for a time beyond its years."""

_ACCOUNTS = f"""\
Adds up what the native converter's access log has ('log.access' in converter.toml): connections and requests that have
ended, by day in UTC, client, home router and path. Without FILE it reads {LOG} and what logrotate(8) has put aside;
'-' is standard input. How long accounts reach back is how long logrotate keeps the logs.

  tributary accounts --by day,path
  tributary accounts --by client --networks --sort=-sent --limit 20
  tributary accounts --csv access.log.2.gz

With --metrics the accounts since midnight (UTC) are written for Prometheus, by router and path. With --clients so many
clients that carried most have series of their own, and the others one together. tributary-accounts.timer does that.

  tributary accounts --metrics /var/lib/prometheus/node-exporter/tributary-accounts.prom --clients 20 --networks
"""


@dataclass(frozen=True)
class Part:
    """What a connection carried on one path, or in all: its client there, and bytes."""

    client: Address
    path: str | None
    received: int
    sent: int


@dataclass(frozen=True)
class Line:
    """A connection or request: its day, and what it carried; by paths, if the log has them, which add up to that."""

    day: str
    whole: Part
    parts: tuple[Part, ...]


def add(commands: Subcommands) -> None:
    """Add the command."""
    added = commands.add("accounts", _show, "bytes by day, client, router and path", _ACCOUNTS)
    added.add_argument("files", nargs="*", type=Path, metavar="FILE", help="access logs, also compressed by gzip(1)")
    added.add_argument(
        "--by", type=_by, metavar="KEY,...", help=f"some of {', '.join(_BY)} (default: {','.join(_USUAL)})"
    )
    added.add_argument("--networks", action="store_true", help="clients by their networks: /24, or /48 of IPv6")
    added.add_argument("--csv", action="store_true", help="a table for other programs (RFC 4180)")
    added.add_argument("--metrics", type=Path, metavar="FILE", help="write those of today to this file, for Prometheus")
    clients = whole_number(1, 10_000, "clients")
    added.add_argument("--clients", type=clients, metavar="N", help="with --metrics: so many have series of their own")
    lists.add_arguments(added)


def _by(text: str) -> tuple[str, ...]:
    keys = tuple(dict.fromkeys(text.split(",")))
    if not set(keys) <= set(_BY):
        raise invalid_value("--by", "keys", text, f"some of {', '.join(_BY)}, with commas between")
    return keys


def _show(
    files: Sequence[Path],
    by: tuple[str, ...] | None,
    networks: bool,
    csv: bool,
    metrics: Path | None,
    clients: int | None,
    listing: Listing,
) -> None:
    if csv and listing.json:
        raise Contradiction("--csv: accepted: without --json")
    if files.count(access_log.STANDARD_INPUT) > 1:
        raise Contradiction("-: accepted: once")
    if listing.watch is not None:
        raise Contradiction("--watch: not accepted with this command")
    if metrics is not None:
        if csv or listing != Listing(json=False):
            raise Contradiction("--metrics: accepted: without --csv, --json, --sort and --limit")
        _write_metrics(metrics, files, _USUAL_METRICS if by is None else by, clients, networks=networks)
        return
    if clients is not None:
        raise Contradiction("--clients: accepted: with --metrics")
    by = _USUAL if by is None else by
    with access_log.opened(files) as logs, _then_failing() as damaged:
        found = accounts(_lines(logs, damaged), by, _routers(by), networks=networks)
        _print(found, by, listing, csv=csv)


def _print(found: Sequence[Account], by: Sequence[str], listing: Listing, *, csv: bool) -> None:
    if not csv:
        lists.show_list("accounts", lambda: lists.now(found), show.ACCOUNTS, listing)
        return
    columns = [*by, "connections", "received", "sent"]
    table = DictWriter(sys.stdout, columns, extrasaction="ignore")
    table.writeheader()
    table.writerows(each.model_dump() for each in show.chosen(found, show.ACCOUNTS, listing))


def _write_metrics(
    file: Path, files: Sequence[Path], by: Sequence[str], clients: int | None, *, networks: bool
) -> None:
    """Write the accounts since midnight, by ``by`` and by as many ``clients``."""
    # Not at the top: it loads the library for Prometheus.
    from command import account_metrics

    if not {"router", "path"}.issuperset(by):
        raise Contradiction("--by: accepted with --metrics: router, path; --clients has clients")
    now = time()
    today = datetime.fromtimestamp(now, UTC)
    midnight = today.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    labels = (*by, "client") if clients else tuple(by)
    with access_log.opened(files, midnight) as logs, _then_failing() as damaged:
        of_today = (each for each in _lines(logs, damaged, midnight) if each.day == today.date().isoformat())
        found = accounts(of_today, labels, _routers(by), networks=networks)
        account_metrics.write(file, account_metrics.bounded(found, clients) if clients else found, labels, now)


@contextmanager
def _then_failing() -> Iterator[list[CommandError]]:
    """A list for what is damaged; raises CommandError, exit 66, after a block that has filled it."""
    damaged: list[CommandError] = []
    yield damaged
    if damaged:
        raise CommandError(Exit.NO_INPUT, f"sums are too small: logs that could not be read whole: {len(damaged)}")


def accounts(
    lines: Iterable[Line], by: Collection[str], routers: Mapping[str, str], *, networks: bool
) -> list[Account]:
    """What ``lines`` come to, by some fields of accounts; ``routers`` are names by their tunnels' addresses. Pure."""
    totals: defaultdict[tuple[str | None, ...], Counter[str]] = defaultdict(Counter)
    for line in lines:
        owners = set()
        for part in line.parts if "path" in by else (line.whole,):
            client = str(network_of(part.client) if networks else part.client)
            known = zip(_BY, (line.day, client, routers.get(str(part.client)), part.path), strict=True)
            owner = tuple(value if key in by else None for key, value in known)
            owners.add(owner)
            totals[owner].update(received=part.received, sent=part.sent)
        for owner in owners:
            totals[owner]["connections"] += 1
    in_order = sorted(totals.items(), key=lambda each: [part or "" for part in each[0]])
    return [Account(**dict(zip(_BY, owner, strict=True)), **total) for owner, total in in_order]


def line(object_: Mapping[str, Any]) -> Line:
    """Of an object of the log. What is none raises what Python does.

    The bytes are those of the object itself, in the proportions of its paths: these have the whole connection's, of
    which earlier objects may have been a part, with what was sent again.
    """
    host = object_["client"].rpartition(":")[0].strip("[]")
    whole = Part(ip_address(host), None, int(object_["up_bytes"]), int(object_["down_bytes"]))
    paths = [
        Part(ip_address(path["client"]), _PATH(path["path"]), int(path["up_bytes"]), int(path["down_bytes"]))
        for path in object_.get("paths") or ()
    ]
    received = _shared(whole.received, [path.received for path in paths])
    sent = _shared(whole.sent, [path.sent for path in paths])
    parts = (replace(path, received=up, sent=down) for path, up, down in zip(paths, received, sent, strict=True))
    day = datetime.fromtimestamp(object_["time"], UTC).date().isoformat()
    return Line(day, whole, tuple(parts) or (whole,))


def _shared(whole: int, parts: Sequence[int]) -> list[int]:
    """``whole`` in the proportions of ``parts``, the first of which gets what is left by rounding."""
    total = sum(parts)
    shares = [whole * part // total if total else 0 for part in parts]
    return [share + (whole - sum(shares) if place == 0 else 0) for place, share in enumerate(shares)]


def _lines(logs: Iterable[Log], damaged: list[CommandError], since: float = 0.0) -> Iterator[Line]:
    """Of all logs, without what ended before ``since``; says of each what is left out, and adds to ``damaged``.

    Raises CommandError, exit 66, if one is damaged and there is no line at all.
    """
    read = 0
    for log in logs:
        bad, before = 0, read
        try:
            for text in log.texts(since):
                read += 1
                if access_log.ended(text) < since:
                    continue
                try:
                    yield line(json.loads(text))
                except _NO_LINE:
                    bad += 1
        except (OSError, EOFError, zlib.error) as error:
            damaged.append(access_log.unreadable(log.path, error))
            _tell(f"{log.path}: cannot be read beyond line {read - before}: what follows is left out: {error}")
        if bad:
            _tell(f"{log.path}: {bad} lines are left out: not of a converter's access log")
    if damaged and not read:
        raise damaged[0]


def _tell(text: str) -> None:
    print(f"tributary: {text}", file=sys.stderr)


def _routers(by: Collection[str]) -> Mapping[str, str]:
    """Their names by the addresses that their tunnels have now, if accounts are by them; says why if none are known."""
    if "router" not in by:
        return {}
    try:
        return {address: router["name"] for router in box.home_routers() for address in router["addresses"]}
    except CommandError as error:
        _tell(f"no router is known by its address: {error}")
        return {}
