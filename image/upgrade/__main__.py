"""The command ``tributary-upgrade``: another version of the image into the slot that does not run, and the way back."""

import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from image.upgrade import bundle, firmware, grubenv, machine, own
from image.upgrade.boot_partition import BOOT, fill, put
from image.upgrade.bundle import Bundle, Slots
from image.upgrade.choice import SLOTS, folder
from image.upgrade.health import Health, Verdict
from image.upgrade.own import Trial
from tributary.settings.cli import Arguments, Contradiction, Subcommands, need_root, program, run, show
from tributary.settings.errors import CommandError, Exit

DESCRIPTION = """\
Upgrades this box as a whole, with a way back. The disk has two slots, A and B, each with a whole system, of which one
runs. An upgrade is a signed bundle that scripts/build-image --key made: it is written into the other slot, and the next
start tries it. If it does not come up well, the start after that is the present system's again, by itself."""

_INSTALL = """\
Verifies the bundle's signature, writes the system in it into the slot that does not run, copies there what is this
box's own (its number, SSH's host keys, files in /etc/tributary that the boot partition's settings do not make), and has
the next start try it. What runs is not touched. A bundle at a URL is read as it is needed, and takes no room."""

_BACK = """\
Has the next start be that of the other slot, with the version and the settings that it had. It is not for a version
that was given up."""

_STATUS = """\
Shows both slots: versions, which one runs, which one starts next, and why one was given up."""

_CONFIRM = """\
For tributary-upgrade-confirm.service, at each start. A system that was found good before is so again. A new one is
looked at until all of Tributary's services have been the same for a while: it stays, or it is given up, and the machine
starts anew with the other slot."""

EPILOG = """\
exit status
  0 done; 64 wrong arguments; 65 a bundle that is not accepted: no signature that this image trusts, for another image,
  older, or with another version in it than it said at first; 66 it is not there; 69 this is no image with two slots, or
  it takes no upgrades; 71 the system refused an operation; 75 the system that runs was not found good yet; 77 not root;
  130 Ctrl-C; 143 SIGTERM

example
  tributary-upgrade install https://images.example.net/tributary-router-x86-0.2.0.raucb --restart"""

_NOT_GOOD = "did not start well, or was not written whole"
"""RAUC has it as bad from the moment on that it writes the slot."""
_EVERY = 2.0  # seconds between two looks at the units
_ALIKE = 5  # looks in a row with the same outcome are a verdict
_PATIENCE = 300.0  # seconds that a start may take until then: slow disks, links that take their time


def parser() -> Arguments:
    """All commands and their arguments."""
    made = Arguments(prog="tributary-upgrade", description=DESCRIPTION, epilog=EPILOG)
    command = Subcommands(made, EPILOG).add
    install = command("install", _install, "put a bundle into the other slot", _INSTALL)
    install.add_argument("bundle", metavar="BUNDLE", help="a file, or an http or https URL")
    install.add_argument("--allow-older", action="store_true", help="also a version older than the one that runs")
    install.add_argument("--check", action="store_true", help="say whether it would be accepted; change nothing")
    back = command("back", _back, "let the other slot start next", _BACK)
    for each in (install, back):
        each.add_argument("--dry-run", action="store_true", help="say what would be done; change nothing")
        each.add_argument("--restart", action="store_true", help="start the machine anew at the end")
    status = command("status", _status, "both slots", _STATUS)
    status.add_argument("--json", action="store_true", help="one JSON object")
    command("confirm", _confirm, "keep the system that has started, or give it up", _CONFIRM)
    return made


def _install(bundle: str, allow_older: bool, check: bool, dry_run: bool, restart: bool) -> None:
    if restart and (check or dry_run):
        raise Contradiction("--restart goes with neither --check nor --dry-run: they change nothing")
    slots, found = _accepted(bundle, allow_older)
    if check:
        print(f"{bundle}: accepted: version {found.version} for {found.compatible}")
        return
    if dry_run:
        print("\n".join(_steps(slots, found)))
        return
    machine.install(bundle)
    with machine.mounted(slots.other.device, change=True) as root:
        _insist_again(found, bundle, root)
        own.carry(Path("/"), root)
        # Where firmware starts a slot by its folder on the boot partition, as a Raspberry Pi's does.
        if (place := BOOT / folder(slots.other.name)).exists():
            fill(root, place)
        Trial(root).begin()
    machine.mark("active", "other")
    print(f"version {found.version} is in slot {slots.other.name}: {_next(restart)}")


def _accepted(name: str, allow_older: bool) -> tuple[Slots, Bundle]:
    """Raises CommandError (65, 66, 69, 75, 77) unless the bundle may be installed now."""
    need_root("tributary-upgrade")
    slots = machine.slots()
    found = machine.bundle(name)
    running = machine.version()
    bundle.insist(found, name, slots, running, machine.is_older, allow_older=allow_older)
    if Trial(Path("/")).on:
        raise CommandError(Exit.IN_USE, "the system that runs was not found good yet: the other slot is the way back")
    return slots, found


def _insist_again(found: Bundle, name: str, root: Path) -> None:
    """Raise CommandError (65), and give the system below ``root`` up, unless it is the version that was accepted.

    RAUC reads the bundle a second time to install it: whoever serves it may hand out another one, as well signed.
    """
    if (written := machine.version(root)) != found.version:
        reason = f"version {written or 'unknown'} was in it, not {found.version}, which was accepted"
        Trial(root).failed(reason)
        raise CommandError(Exit.BAD_DATA, f"{name}: {reason}; what runs is as it was")


def _steps(slots: Slots, found: Bundle) -> list[str]:
    target = f"slot {slots.other.name} ({slots.other.device})"
    return [
        f"write version {found.version} into {target}",
        *(f"copy /{name} into it" for name in own.paths(Path("/"))),
        f"let slot {slots.other.name} start next, on trial",
    ]


def _next(restart: bool) -> str:
    """What happens next, or is for a person to do."""
    if not restart:
        return "it starts with the next start of this machine: systemctl reboot"
    machine.restart()
    return "this machine starts anew"


def _back(dry_run: bool, restart: bool) -> None:
    need_root("tributary-upgrade")
    slots = machine.slots()
    other, name = _inside(slots.other.device), slots.other.name
    if not other.version:
        raise CommandError(
            Exit.UNAVAILABLE,
            f"slot {name} holds no system: there is no way back before the first upgrade, nor after one that broke off",
        )
    if other.given_up or not slots.other.good:
        why = other.given_up or f"it {_NOT_GOOD}"
        raise CommandError(
            Exit.UNAVAILABLE, f"slot {name}, version {other.version}, was given up ({why}): there is no way back"
        )
    if dry_run:
        print(f"let slot {name} start next, version {other.version}")
        return
    machine.mark("active", "other")
    grubenv.note_good(BOOT, name)
    print(f"version {other.version} is in slot {name}: {_next(restart)}")


class _System(NamedTuple):
    """A system's version, why it was given up, and whether it was not found good yet; empty where there is none."""

    version: str = ""
    given_up: str = ""
    on_trial: bool = False

    @property
    def is_good(self) -> bool:
        return bool(self.version) and not self.given_up and not self.on_trial


def _inside(device: str) -> _System:
    try:
        with machine.mounted(device) as root:
            trial = Trial(root)
            return _System(machine.version(root), trial.reason, trial.on)
    except CommandError:
        return _System()


def _status(json: bool) -> None:
    need_root("tributary-upgrade")
    slots = machine.slots()
    version, given_up, _ = _inside(slots.other.device)
    facts: dict[str, Any] = {
        "running": {"slot": slots.running.name, "version": machine.version(), "on_trial": Trial(Path("/")).on},
        "other": {"slot": slots.other.name, "version": version, "given_up": given_up, "good": slots.other.good},
        "next": slots.first,
        "takes": slots.compatible,
    }
    show(facts, _lines(facts), as_json=json, indent=None)


def _lines(facts: dict[str, Any]) -> list[str]:
    running, other = facts["running"], facts["other"]
    state = "on trial" if running["on_trial"] else "found good"
    if not other["version"]:
        second = "empty"
    elif other["given_up"]:
        second = f"version {other['version']}, given up: {other['given_up']}"
    else:
        second = f"version {other['version']}, {'can be started' if other['good'] else _NOT_GOOD}"
    return [
        f"slot {running['slot']}: version {running['version']}, runs, {state}",
        f"slot {other['slot']}: {second}",
        f"next start: slot {facts['next'] or 'not known'}",
        f"takes bundles for {facts['takes']}",
    ]


def _confirm() -> None:
    need_root("tributary-upgrade")
    slot = firmware.running()
    if grubenv.is_damaged(BOOT) and _repair(slot) != slot:
        machine.restart()
        return
    trial = Trial(Path("/"))
    found = _settled() if trial.on else Verdict(Health.GOOD)
    if found.health is Health.GOOD:
        trial.passed()
        machine.mark("good", "booted")
        grubenv.note_good(BOOT, slot)
        print("this system is found good")
        return
    reason = f"{found.health.value}: {', '.join(found.units)}"
    print(f"this system is given up, {reason}", file=sys.stderr)
    trial.failed(reason)
    machine.mark("bad", "booted")
    machine.restart()


def _repair(slot: str) -> str:
    """Which slot starts next: ``slot``, which runs, or the other one if that was found good last.

    GRUB has taken the first entry of its menu, whichever slot ran before. The other one is tried so once: unless it is
    found good again, what runs after further damage stays.
    """
    (other,) = set(SLOTS) - {slot}
    is_good = _inside(f"/dev/tributary/root-{folder(other)}").is_good
    first = other if is_good and grubenv.found_good(BOOT) == other else slot
    put(BOOT / grubenv.NAME, grubenv.environment(first, other_good=is_good))
    if first == other:
        grubenv.note_good(BOOT, "")
    print(f"GRUB's variables were damaged: made anew, slot {first} starts first")
    return first


def _settled() -> Verdict:
    """The verdict that was the same in several looks, or the last one when patience ends."""
    ends, alike, last = time.monotonic() + _PATIENCE, 0, Verdict(Health.UNDECIDED)
    while time.monotonic() < ends:
        found = machine.look()
        alike = alike + 1 if found.health is last.health else 1
        last = found
        if found.health is not Health.UNDECIDED and alike == _ALIKE:
            return found
        time.sleep(_EVERY)
    return last


main = program(parser)

if __name__ == "__main__":
    run(main, "tributary-upgrade")
