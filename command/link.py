"""A home router's links, one by one: ``tributary link``."""

import textwrap
from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from command import box, saved, show
from router.control import CONTROL
from tributary.daemons.logs import printable
from tributary.daemons.text import age, folded, plural, scaled
from tributary.settings.cli import Subcommands
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import drop_ins
from tributary.settings.links import USES, Use
from tributary.settings.units import Size

_FROM_SETTINGS = "settings"
_ACCEPTED = f"use=USE with {USES} or '{_FROM_SETTINGS}', used=SIZE such as used=12GB"

_LINK = f"""\
Shows all about a link of a home router, or changes it; a change needs root.

  use=USE     when it is used: primary, overflow or backup, until tributary-router is reloaded or, with --save, also
              then: in a file beside its settings, in router.d; use={_FROM_SETTINGS} is what the settings say
  used=SIZE   what was used of its monthly cap, as the provider counts it

  tributary link lte
  tributary link lte use=backup --save
  tributary link lte used=12GB
"""

Answer = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """What is to change: when the link is used, "settings" to go back to these; the part of its cap that is used."""

    use: Use | str | None = None
    used: Size | None = None


@dataclass(frozen=True)
class Options:
    """``tributary link``."""

    link: str
    changes: list[Change]
    save: bool
    dry_run: bool
    json: bool

    def __post_init__(self) -> None:
        if self.save and not any(isinstance(change.use, Use) for change in self.changes):
            raise ValueError("--save: accepted: with use=USE")


def add(commands: Subcommands) -> None:
    """Add the command."""
    link = commands.add("link", Options, _link, "all about a home router's link, or change it", _LINK)
    link.add_argument("link", metavar="LINK", help="its name in the router's settings")
    link.add_argument("changes", nargs="*", type=change, metavar="use=USE|used=SIZE", help="see above")
    link.add_argument("--save", action="store_true", help="also after a reload or restart of the router")
    link.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    link.add_argument("--json", action="store_true", help="JSON instead of text (docs/api.md)")


def change(text: str) -> Change:
    """A change as the command line has it; raises ArgumentTypeError."""
    key, _, value = text.partition("=")
    try:
        if key == "used":
            return Change(used=Size.parse(value))
        if key == "use":
            return Change(use=_FROM_SETTINGS if value == _FROM_SETTINGS else Use(value))
    except ValueError:
        pass
    raise ArgumentTypeError(f"{text!r}: accepted: {_ACCEPTED}")


def _link(options: Options) -> None:
    answer = box.router()
    found = _found(answer, options.link)
    for each in options.changes:
        if options.dry_run:
            print(f"# {options.link} would {_meant(each)}" + _in(options, answer))
        else:
            _make(each, options, Path(answer["settings"]))
    if options.dry_run:
        return
    if options.changes:
        found = _found(box.router(), options.link)
    if options.json:
        show.print_object(link=found)
        return
    console = Console()
    for line in lines(found, console.width):
        console.print(line, soft_wrap=True, highlight=False)


def _found(answer: Answer, name: str) -> Answer:
    links: Mapping[str, Answer] = {link["name"]: link for link in answer["wan"]}
    if name not in links:
        raise CommandError(Exit.USAGE, f"{name}: accepted: a link of {answer['settings']}: {', '.join(links)}")
    return links[name]


def _meant(change: Change) -> str:
    if change.used is not None:
        return f"have used {change.used} of its monthly cap"
    return "be used as the settings say" if change.use == _FROM_SETTINGS else f"be used as {change.use}"


def _in(options: Options, answer: Answer) -> str:
    return f", also in {drop_ins(Path(answer['settings']))}" if options.save else ""


def _make(change: Change, options: Options, settings: Path) -> None:
    if change.used is not None:
        CONTROL.ask("set-usage", link=options.link, used=change.used.amount)
        return
    name = f"use-{options.link}"
    if isinstance(change.use, Use):
        CONTROL.ask("set-use", link=options.link, use=change.use)
        if options.save:
            saved.save(settings, name, f"[wan.{options.link}]", {"use": change.use})
        return
    saved.forget(settings, name)
    CONTROL.ask("set-use", link=options.link, use=None)


def lines(link: Answer, width: int) -> Iterator[Text]:
    """All about a link, in lines of at most ``width`` columns, unless a single fact is longer."""
    yield Text(f"{link['name']}: {link['state']}" + (f", {link['reason']}" if link["reason"] else ""), "bold")
    for finding in link["diagnosis"]:
        for line in textwrap.wrap(printable(finding["text"]), max(width - 2, 20), break_long_words=False):
            yield Text("  " + line)
    yield from folded(_facts(link), 2, width)


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
        link["use"] + (" (set at run time)" if link["use_is_set"] else ""),
        *(["not needed now"] if link["standby"] else []),
        *(["metered"] if link["metered"] else []),
        *([f"hours {' and '.join(link['hours'])}"] if link["hours"] else []),
        *([_used(link["cap"])] if link["cap"] else []),
        *_shaper(link["shaper"]),
        *([f"probe {probe['rtt_ms']:.1f} ms"] if probe and probe["rtt_ms"] is not None else []),
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
