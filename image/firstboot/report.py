"""What a person should know or do next: at the console, above its login prompt, in two files beside tributary.toml."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from image.firstboot import console, first_start, wifi
from image.firstboot.facts import Facts
from image.firstboot.files import inside
from image.firstboot.first_start import shown
from image.firstboot.gateway import HTTP_PORT, SOCKS_PORT, SQUID_PORT, client_side
from image.firstboot.home import PROXY_PORT
from image.firstboot.identity import USER
from image.firstboot.reading import NAME
from image.firstboot.settings import OF_ROLE, Card, Role
from tributary.daemons.state_file import write_atomic
from tributary.settings.errors import CommandError
from tributary.settings.hosts import CONVERT_PORT, joined
from tributary.settings.links import Use

ERRORS, APPLIED = "tributary-errors.txt", "tributary-applied.txt"
_ISSUE = "/etc/issue.d/50-tributary.issue"
_BY_HAND = f"add [[enrolment]] or gateway, two tables [wan.NAME], and [lan] to {NAME}, and start the box anew."


@dataclass(frozen=True)
class Report:
    """Where to show it: the boot partition's folder ``card``, the system's root, and the console, if there is one."""

    card: Path
    root: Path
    console: Path | None

    def refused(self, lines: Sequence[str], last: bool) -> None:
        """What could not be, in ``lines``; ``last``: whether an earlier file was applied, and holds."""
        holds = "What was applied before still holds." if last else "Nothing was set up."
        text = f"Tributary could not apply {NAME} of the boot partition. {holds}\n"
        text += "Correct these lines, and start the box anew:\n" + "".join(f"  {line}\n" for line in lines)
        self._write(self.card / ERRORS, text)
        self._write(inside(self.root, _ISSUE), f"{_escaped(text)}\n")
        self._say(text)

    def note(self, line: str) -> None:
        """Something that no setting mends."""
        print(f"firstboot: {line}", file=sys.stderr)
        self._say(f"Tributary: {line}")

    def fine(self) -> bool:
        """What was wrong is so no longer; returns whether anything was."""
        errors = self.card / ERRORS
        was_wrong = errors.exists()
        with suppress(OSError):  # a card that cannot be written
            errors.unlink(missing_ok=True)
        return was_wrong

    def applied(self, headline: str, steps: Sequence[str], addresses: Sequence[str]) -> None:
        """What the box is now. The prompt shows addresses by agetty's escapes, which follow them as they change."""
        rest = "".join(f"  {step}\n" for step in steps)
        where = f"Addresses: {', '.join(addresses)}.\n" if addresses else ""
        self._write(self.card / APPLIED, f"{headline}\n{where}{rest}")
        self._write(inside(self.root, _ISSUE), f"{_escaped(headline)}\nAddresses: \\4 \\6\n{_escaped(rest)}\n")
        self._say(f"{headline}\n{rest}")

    def _write(self, path: Path, text: str) -> None:
        """The card is spared a write of what it has. One that cannot be read or written is no reason to stop."""
        with suppress(OSError):  # also of a file that a power cut has damaged
            if path.read_text(errors="replace") == text:
                return
        try:
            with suppress(OSError):  # which the write finds as well
                path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, text.encode())
        except CommandError as error:
            print(f"firstboot: {error}", file=sys.stderr)

    def _say(self, text: str) -> None:
        if self.console is not None:
            with suppress(OSError), self.console.open("w") as console:
                console.write(f"\n{text}\n")


def _escaped(text: str) -> str:
    """As agetty(8) shows it unchanged."""
    return text.replace("\\", "\\\\")


def next_steps(card: Card, facts: Facts, addresses: Sequence[str] = ()) -> tuple[str, ...]:
    """Sentences, the most urgent first; ``addresses`` are the box's own, none if they are not known yet."""
    role = card.role or facts.role
    used = card.used_by(role)
    where = addresses[0] if addresses else "ADDRESS"
    return (
        *_login(card, where),
        *wifi.links_without_network(used),
        *(_gateway(used, facts, where) if role is Role.GATEWAY else _home(used, facts)),
        *_unused(card, used, role),
    )


def _login(card: Card, where: str) -> Iterator[str]:
    if card.ssh_keys:
        yield f"Log in: ssh {USER}@{where}"
    elif card.password_hash:
        yield f"Log in at the console as {USER}. For SSH, add ssh_keys to {NAME}."
    else:
        yield f"Nobody can log in: add ssh_keys or password_hash to {NAME}, and start the box anew."


def _gateway(card: Card, facts: Facts, where: str) -> Iterator[str]:
    if card.public_name:
        yield f"Home routers find it at {card.public_name}. To let one in: sudo tributary enrol NAME"
    elif not card.client_networks:
        yield f"The converters serve this box alone: add client_networks to {NAME}, and start the box anew."
    if card.client_networks:
        yield (
            f"Clients: {', '.join(map(str, card.client_networks))}. HTTP proxy: {joined(where, SQUID_PORT)} (Squid) or"
            f" {HTTP_PORT} (native), SOCKS: {SOCKS_PORT}, TCP Convert: {CONVERT_PORT}."
        )
    yield from console.told(card, where)
    if not client_side(card, facts):
        yield f"The throttler sees nothing: there was no wired interface. Later: sudo {USER}-firstboot --again"


def _home(card: Card, facts: Facts) -> Iterator[str]:
    if card.lan is None or card.target is None:
        yield f"This is no router yet: {''.join(_asking(card, facts))}{_BY_HAND}"
        return
    network, where = card.lan.address.network, card.lan.interface
    if card.access_point:
        where += f", or join them to the Wi-Fi {card.access_point.ssid}"
    if card.lan.leases:
        yield f"Plug devices in at {where}: they get addresses of {network} by themselves."
    else:
        yield f"Give devices at {where} addresses of {network}, {card.lan.address.ip} as router and DNS server."
    proxy = f"HTTP proxy: {card.lan.address.ip}:{PROXY_PORT}."
    yield f"Their TCP connections take {'; '.join(_used(card))}. {proxy}"
    if card.enrolments:
        yield f"All goes through tunnels to {card.enrolments[0].gateway}. Whether it answers: {USER} links"
    yield from console.told(card, where)
    if ports := " ".join(str(each) for table in card.forwards for each in table.ports):
        yield f"On the gateway, once: tributary forward NAME {ports}"


def _used(card: Card) -> Iterator[str]:
    """The links of each use, and when they are used."""
    uses = ((Use.PRIMARY, ""), (Use.OVERFLOW, " when others are full"), (Use.BACKUP, " when no other works"))
    for use, when in uses:
        if names := [name for name, wan in card.wan.items() if wan.use is use]:
            yield ", ".join(names) + (when or ", all at once" * (len(names) > 1))


def _asking(card: Card, facts: Facts) -> Iterator[str]:
    """Where the first-start page is, if the box has one."""
    ports = " or ".join([card.lan.interface] if card.lan else facts.built_in)
    if card.asks_by_page and ports:
        where = first_start.address(card).ip
        yield f"plug a computer in at {ports}, alone, and open http://{where}/ there. Code: {shown(facts.code)}. Or "


def _unused(card: Card, used: Card, role: Role) -> Iterator[str]:
    given = [key for keys in OF_ROLE.values() for key in keys if getattr(card, key) != getattr(used, key)]
    if given:
        yield f"Not used, since this box is a {role}: {', '.join(given)}."
