"""A home router's links, one by one: ``tributary link``."""

import textwrap
from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command import box, show, steering
from tributary.api.places import ROUTER
from tributary.daemons.logs import printable
from tributary.daemons.text import age, plural, scaled
from tributary.settings.cli import Contradiction, Subcommands
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import drop_ins
from tributary.settings.links import USES, Use
from tributary.settings.units import PositiveRate, Size

_FROM_SETTINGS = "settings"
_KEYS = {"use": USES, "download": PositiveRate.ACCEPTED, "upload": PositiveRate.ACCEPTED}
"""The keys of a link that change while the router runs, and what each takes."""
_USED = "used"
_NO_BREAK = "\N{NO-BREAK SPACE}"

_LINK = f"""\
Shows all about a link of a home router, or changes it; a change needs root.

  use=USE        when it is used: primary, overflow or backup
  download=RATE  what it surely carries from the Internet, such as 40mbit; upload=RATE: to it
  used=SIZE      what was used of its monthly cap, as the provider counts it

use, download and upload hold until tributary-router is reloaded or, with --save, also then: in a file beside its
settings, in router.d. KEY={_FROM_SETTINGS} goes back to what the settings say.

  tributary link lte
  tributary link lte use=backup --save
  tributary link lte used=12GB
"""

Answer = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """A key and what it becomes; None: what the settings say."""

    key: str
    value: str | None


def add(commands: Subcommands) -> None:
    """Add the command."""
    link = commands.add("link", _link, "all about a home router's link, or change it", _LINK)
    link.add_argument("link", metavar="LINK", help="its name in the router's settings")
    link.add_argument("changes", nargs="*", type=change, metavar="KEY=VALUE", help="see above")
    link.add_argument("--save", action="store_true", help="also after a reload or restart of the router")
    link.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    link.add_argument("--json", action="store_true", help="JSON instead of text (docs/api.md)")


def change(text: str) -> Change:
    """A change as the command line has it; raises ArgumentTypeError."""
    key, _, value = text.partition("=")
    if key not in (*_KEYS, _USED):
        accepted = ", ".join(f"{each}=" for each in (*_KEYS, _USED))
        raise ArgumentTypeError(f"{text!r}: accepted: {accepted}")
    if key in _KEYS and value == _FROM_SETTINGS:
        return Change(key, None)
    try:
        if key == _USED:
            return Change(key, str(Size.parse(value)))
        return Change(key, str(Use(value) if key == "use" else PositiveRate.parse(value)))
    except ValueError as error:
        accepted = Size.ACCEPTED if key == _USED else f"{_KEYS[key]}, or '{_FROM_SETTINGS}'"
        raise ArgumentTypeError(f"{text!r}: accepted: {accepted}") from error


def _link(link: str, changes: list[Change], save: bool, dry_run: bool, json: bool) -> None:
    if save and not any(change.key in _KEYS and change.value for change in changes):
        raise Contradiction(f"--save: accepted: with one of {', '.join(f'{key}=' for key in _KEYS)}")
    answer = box.router()
    found, settings = _found(answer, link), Path(answer["settings"])
    if not found["cap"] and any(each.key == _USED for each in changes):
        # Before any of the others is made.
        raise CommandError(Exit.USAGE, f"{link}: {_USED}=: accepted of a link with a monthly_cap")
    for each in changes:
        if dry_run:
            print(f"# {link} would {_meant(each, settings if save else None)}")
        else:
            _make(link, each, settings, save)
    if dry_run:
        return
    if changes:
        found = _found(box.router(), link)
    if json:
        show.print_object(link=found)
        return
    # Not at the top: see lists.show.
    from rich.console import Console
    from rich.text import Text

    console = Console()
    head, *rest = lines(found, console.width)
    for line in (Text(head, "bold"), *map(Text, rest)):
        console.print(line, soft_wrap=True, highlight=False)


def _found(answer: Answer, name: str) -> Answer:
    links: Mapping[str, Answer] = {link["name"]: link for link in answer["wan"]}
    if name not in links:
        raise CommandError(Exit.USAGE, f"{name}: accepted: a link of {answer['settings']}: {', '.join(links)}")
    return links[name]


def _meant(change: Change, saved_in: Path | None) -> str:
    if change.key == _USED:
        return f"have used {change.value} of its monthly cap"
    also = f", also in {drop_ins(saved_in)}" if saved_in and change.value else ""
    return f"have {change.key} = {change.value or 'what the settings say'}{also}"


def _make(link: str, change: Change, settings: Path, save: bool) -> None:
    if change.key == _USED:
        ROUTER.ask("set-usage", link=link, used=Size.parse(change.value).amount)
        return
    name = f"{change.key}-{link}"
    if change.value is None:
        steering.forget(settings, name)
    ROUTER.ask("set-link", link=link, key=change.key, value=change.value)
    if change.value is not None and save:
        steering.save(settings, name, f"[wan.{link}]", {change.key: change.value})


def lines(link: Answer, width: int) -> Iterator[str]:
    """All about a link, in lines of at most ``width`` columns, unless a single fact is longer."""
    yield f"{link['name']}: {link['state']}" + (f", {link['reason']}" if link["reason"] else "")
    for finding in link["diagnosis"]:
        for line in textwrap.wrap(printable(finding["text"]), max(width - 2, 20), break_long_words=False):
            yield "  " + line
    # A line ends between two facts, not within one.
    facts = ", ".join(printable(fact).replace(" ", _NO_BREAK) for fact in _facts(link))
    for line in textwrap.wrap(
        facts, width, initial_indent="  ", subsequent_indent=6 * " ", break_long_words=False, break_on_hyphens=False
    ):
        yield line.replace(_NO_BREAK, " ")


def _facts(link: Answer) -> list[str]:
    probe = link["probe"]
    return [
        f"interface {link['interface'] or '(none)'}",
        *(f"address {address}" for address in link["addresses"]),
        *(f"gateway {gateway}" for gateway in link["gateways"]),
        *([f"prefix {link['delegated']} for the LAN"] if link["delegated"] else []),
        *(f"endpoint {endpoint['id']} for {endpoint['address']}" for endpoint in link["endpoints"]),
        *([f"tunnel {link['tunnel']['interface']} from {link['tunnel']['address']}"] if link["tunnel"] else []),
        f"table {link['table']}",
        f"rank {link['rank']}",
        *(["begins sessions"] if link["begins_sessions"] else []),
        link["use"],
        *(["not needed now"] if link["standby"] else []),
        *(["metered"] if link["metered"] else []),
        *([f"set at run time: {' and '.join(link['set'])}"] if link["set"] else []),
        *([f"hours {' and '.join(link['hours'])}"] if link["hours"] else []),
        *([_used(link["cap"])] if link["cap"] else []),
        *_shaper(link["shaper"]),
        *([f"probe {probe['rtt_ms']:.1f} ms"] if probe and probe["rtt_ms"] is not None else []),
        *([f"{probe['loss']:.0%} of probes lost"] if probe and probe.get("loss") else []),
        *([f"{plural(probe['failures'], 'probe')} failed"] if probe and probe["failures"] else []),
        f"since {link['since']} ({age(link['state_age_s'])})",
    ]


def _used(cap: Answer) -> str:
    text = f"{scaled(cap['used_bytes'], 'B')} of {scaled(cap['bytes'], 'B')} used"
    text += f" since {cap['since']}" if cap["since"] else ""
    return text + ("" if cap["level"] == "ok" else f" ({cap['level']})")


def _shaper(shaper: Answer | None) -> Iterator[str]:
    if shaper is None:
        return
    if shaper["unmanaged_qdisc"]:
        yield "not shaped, since its qdisc is not managed here"
    for direction in ("download", "upload"):
        if shaper[direction]:
            most = shaper[f"max_{direction}"]
            yield f"{direction} {scaled(shaper[direction], 'bit/s')}" + (
                f" of {scaled(most, 'bit/s')}" if most != shaper[direction] else ""
            )
    if shaper["qdisc"]:
        yield f"queue {shaper['qdisc']}"
    if shaper["idle_rtt_ms"] is not None:
        yield f"{shaper['idle_rtt_ms']:.1f} ms when idle"
