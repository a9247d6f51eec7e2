"""The output of ``router status``: the daemon's answer as text, folded between facts."""

import textwrap
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from tributary.daemons.logs import printable
from tributary.daemons.text import age, folded, plural, scaled

Answer = dict[str, Any]


def show(answer: Answer, console: Console) -> None:
    """Prints ``answer``, folded to the console's width."""
    for line in lines(answer, console.width):
        console.print(line, soft_wrap=True, highlight=False)


def lines(answer: Answer, width: int) -> Iterator[Text]:
    """The whole text, in lines of at most ``width`` columns, unless a single fact is longer."""
    yield from folded(_summary(answer), 0, width)
    if answer["gateway"]:
        yield Text()
        yield Text(f"gateway {answer['gateway']['address']}", "bold")
        yield from _sentences(answer["gateway"]["diagnosis"], width)
    for link in answer["wan"]:
        yield Text()
        yield Text(f"{link['name']}: {link['state']}" + (f", {link['reason']}" if link["reason"] else ""), "bold")
        yield from _sentences(link["diagnosis"], width)
        yield from folded(_link(link), 2, width)


def used(cap: Answer) -> str:
    """How much of a monthly cap is used."""
    text = f"{scaled(cap['used_bytes'], 'B')} of {scaled(cap['bytes'], 'B')} used"
    text += f" since {cap['since']}" if cap["since"] else ""
    return text + ("" if cap["level"] == "ok" else f" ({cap['level']})")


def _sentences(findings: list[Answer], width: int) -> Iterator[Text]:
    for finding in findings:
        for line in textwrap.wrap(printable(finding["text"]), max(width - 2, 20), break_long_words=False):
            yield Text("  " + line)


def _summary(answer: Answer) -> list[str]:
    up = sum(link["state"] == "up" for link in answer["wan"])
    return [
        f"settings {answer['settings']}",
        f"up for {age(answer['uptime_s'])}",
        f"{up} of {plural(len(answer['wan']), 'link')} up",
        f"at most {plural(answer['limits']['subflows'], 'subflow')} beside the first",
        *_gateway(answer["gateway"]),
        *(f"endpoint {address} is not managed here" for address in answer["unmanaged_endpoints"]),
    ]


def _gateway(gateway: Answer | None) -> list[str]:
    if gateway is None:
        return []
    other = gateway["default_tunnel"]
    return [f"everything else by {other['interface']}"] if other and gateway["answers"] else []


def _link(link: Answer) -> list[str]:
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
        link["use"] + (" (not needed now)" if link["standby"] else ""),
        *(["metered"] if link["metered"] else []),
        *([f"hours {' and '.join(link['hours'])}"] if link["hours"] else []),
        *([used(link["cap"])] if link["cap"] else []),
        *_shaper(link.get("shaper")),
        *([f"probe {probe['rtt_ms']:.1f} ms"] if probe and probe["rtt_ms"] is not None else []),
        *([f"{plural(probe['failures'], 'probe')} failed"] if probe and probe["failures"] else []),
        f"since {link['since']} ({age(link['state_age_s'])})",
    ]


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
