"""The command ``first-start``: a page for the LAN that asks for what makes a home router of this box."""

import socket
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path

from console.web import BACKLOG
from image.firstboot import boot, first_start, interfaces, look, reading
from image.firstboot.apply import System
from image.firstboot.apply import run as perform
from image.firstboot.boot import Outlook, Task
from image.firstboot.page import ports, serving
from image.firstboot.page.app import Box, Page
from image.firstboot.plan import plan
from image.firstboot.settings import Card, Lan, Role
from tributary.daemons.listener import listener
from tributary.daemons.state_file import write_atomic
from tributary.settings.cli import Arguments, Contradiction, need_root, parsed_by, postponed_signals, program, run
from tributary.settings.errors import CommandError, Exit, refused
from tributary.settings.hosts import host_and_port

DESCRIPTION = """\
Serve the first-start page: a home router whose tributary.toml names neither links nor a gateway asks for them, by a
page at the LAN's side.

  first-start                what the service tributary-first-start does: see below
  first-start --dry-run      show the page on any machine, at 127.0.0.1:8080; nothing is changed"""

EPILOG = """\
what it does
  1. Ends at once if tributary.toml is a gateway's, names links or a gateway, or says first_start_page = false.
  2. Finds the port for devices. That is the one of [lan], if that stands in tributary.toml; else a port on the board
     that something has been connected to for 30 seconds, and where nobody has given this box an address, told it of a
     router, or answered by PPPoE. There the box gives addresses itself, and becomes 192.168.77.1. If anybody else turns
     out to give addresses there, it leaves at once, and looks again.
  3. Serves the page there and nowhere else: http://192.168.77.1/. Whoever wants more than to read it needs the code,
     which the box shows on its screen, above the login prompt, and in tributary-applied.txt on the card.
  4. Checks what was given as tributary-firstboot does, and shows what is wrong, or what it will be.
  5. Told to start, it writes tributary.toml, and starts the box anew: tributary-firstboot does the rest, and the
     service is off. first_start_page = false stands there then.

files
  CARD/tributary.toml                           the settings; CARD is /boot/firmware, or --card
  /var/lib/tributary/firstboot/code             the code

exit status
  0 settings were taken, or none are missing; 64 wrong arguments, or tributary.toml is not accepted; 66 it cannot be
  read; 69 something is missing: dnsmasq, the firewall, the code; 71 the system refused an operation; 75 the address is
  in use; 77 not root; 130 Ctrl-C; 143 SIGTERM

example
  first-start --dry-run --at 192.168.1.5:8080      for a look from a phone"""


def parser() -> Arguments:
    """The arguments of first-start."""
    parser = Arguments(prog="first-start", description=DESCRIPTION, epilog=EPILOG)
    parser.set_handler(_run)
    add = parser.add_argument
    add("--dry-run", action="store_true", help="show the page, change nothing")
    at = parsed_by(_address_and_port, "an IPv4 address and a port, such as 127.0.0.1:8080")
    add("--at", type=at, metavar="ADDRESS:PORT", help="where a dry run listens (default: 127.0.0.1:8080)")
    add(
        "--wait",
        type=float,
        default=ports.QUIET_SECONDS,
        metavar="SECONDS",
        help="how long nobody may have answered at a port (default: %(default)s)",
    )
    add("--root", type=Path, default=Path("/"), metavar="FOLDER", help="for the system in FOLDER; nothing starts anew")
    add("--card", type=Path, metavar="FOLDER", help="where tributary.toml is (default: boot/firmware below --root)")
    return parser


def _address_and_port(text: str) -> tuple[IPv4Address, int]:
    address, port = host_and_port(text)
    return IPv4Address(address), port


def _run(dry_run: bool, at: tuple[IPv4Address, int] | None, wait: float, root: Path, card: Path | None) -> None:
    if dry_run:
        _show(card, *(at or (IPv4Address("127.0.0.1"), 8080)))
        return
    if at:
        raise Contradiction("--at goes with --dry-run")
    system = System.at(root)
    need_root("first-start")
    task = Task(system, card or root / "boot/firmware", look.image_role(root))
    settings = reading.read(boot.content(task.card), task.role)
    if (settings.role or task.role) is not Role.ROUTER or not settings.asks_by_page:
        print(f"{reading.NAME} asks for no page")
        return
    _serve(task, settings, wait)
    if system.running:
        perform(["systemctl", "reboot"])


def _show(card: Path | None, address: IPv4Address, port: int) -> None:
    """The page with this machine's interfaces, and with the card's file if one is given."""
    text = boot.content(card) if card else b""
    settings, facts = reading.read(text, Role.ROUTER), look.assumed(Role.ROUTER)

    def foresee(given: bytes) -> Outlook:
        found = reading.read(given, Role.ROUTER)
        return Outlook(found, facts, "", plan(found, facts))

    box = Box(first_start.fresh(), lambda: text, interfaces.interfaces, foresee, lambda _: None)
    page = Page(box, settings, str(first_start.address(settings)))
    with refused(Exit.IN_USE, f"{address}:{port}", "cannot be listened on"):
        here = socket.create_server((str(address), port))
    print(f"http://{address}:{port}/ Code: {first_start.shown(box.code)}. Nothing will be changed.", flush=True)
    _answer(page, here, lambda: True)


def _serve(task: Task, card: Card, wait: float) -> None:
    """Until settings were taken."""
    address = first_start.address(card)
    box = Box(
        _code(task.system.root),
        lambda: boot.content(task.card),
        interfaces.interfaces,
        lambda text: boot.foresee(task, text),
        lambda text: write_atomic(task.card / reading.NAME, text),
    )
    while True:
        lan = card.lan or Lan.model_validate({"interface": _port(address, wait), "address": str(address)})
        page = Page(box, card, str(address))
        with (
            serving.lan_side(lan, gives_address=card.lan is None) as renew,
            listener(str(address.ip), first_start.PORT, BACKLOG, interface=lan.interface) as there,
        ):
            print(f"served at {lan.interface}: http://{address.ip}/", flush=True)
            _answer(page, there, partial(_goes_on, renew, None if card.lan else lan))
        if page.accepted:
            print(f"{reading.NAME} has settings", flush=True)
            return
        print(f"not at {lan.interface} any more: nothing is connected, or it leads to the Internet", flush=True)


def _answer(page: Page, listener: socket.socket, goes_on: Callable[[], bool]) -> None:
    """``serving.serve``, which signals end in order: no request is cut off, nor one's file."""
    with postponed_signals() as has_come:
        serving.serve(page, listener, lambda: not has_come() and goes_on())


def _code(root: Path) -> str:
    if not (root / first_start.PLACE).exists():
        raise CommandError(
            Exit.UNAVAILABLE, f"{root / first_start.PLACE} is missing: tributary-firstboot --again makes one"
        )
    return first_start.kept(root)


def _port(address: IPv4Interface, wait: float) -> str:
    """The port that turns out to be the LAN's; waits for one."""
    quiet: dict[str, float] = {}
    providers: set[str] = set()
    while True:
        found = ports.looked_at(address)
        providers &= {port.name for port in found if port.carrier}
        left = [replace(port, upstream=port.upstream or port.name in providers) for port in found]
        quiet = ports.quiet_since(quiet, left, time.monotonic())
        if name := ports.found(quiet, time.monotonic(), wait):
            if not ports.is_answered_by_pppoe(name):
                return name
            providers.add(name)
        time.sleep(serving.EVERY)


def _goes_on(renew: Callable[[], None], proposed: Lan | None) -> bool:
    """Renew what the page needs, and say whether the port that it chose is still the LAN's."""
    renew()
    return proposed is None or ports.is_free(proposed.interface, proposed.address)


main = program(parser)

if __name__ == "__main__":
    run(main, "first-start")
