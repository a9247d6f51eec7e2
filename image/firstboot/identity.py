"""The box's name, and who may log in. Pure."""

from collections.abc import Iterator

from image.firstboot.actions import (
    PRIVATE,
    Action,
    DisableUnit,
    EnableUnit,
    MakeFolder,
    RemoveFile,
    SetHostname,
    SetPassword,
    WriteFile,
)
from image.firstboot.facts import Facts
from image.firstboot.settings import Card

USER = "tributary"
SSH = "ssh.service"

_SUDOERS = "/etc/sudoers.d/tributary"
_SSHD = """\
# SSH by key only, and never as root. The first value counts, and this file comes before the others (sshd_config(5)).
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin no
"""


def identity(card: Card, facts: Facts) -> Iterator[Action]:
    """Name, keys, password, sudo, and SSH's daemon, which runs for those who have a key."""
    name = card.hostname
    yield WriteFile("/etc/hostname", f"{name}\n")
    yield WriteFile("/etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {name}\n::1 localhost ip6-localhost ip6-loopback\n")
    yield SetHostname(name)
    yield from _keys(card, facts)
    yield WriteFile("/etc/ssh/sshd_config.d/05-tributary-card.conf", _SSHD)
    yield SetPassword(USER, card.password_hash)
    yield SetPassword("root", None)
    # Without a password there is none to ask for. Who could log in without key and password, could not be told apart.
    yield WriteFile(_SUDOERS, f"{USER} ALL=(ALL) NOPASSWD: ALL\n", 0o440) if card.can_log_in else RemoveFile(_SUDOERS)
    yield EnableUnit(SSH) if card.ssh_keys else DisableUnit(SSH)


def _keys(card: Card, facts: Facts) -> Iterator[Action]:
    folder = f"{facts.home}/.ssh"
    keys = f"{folder}/authorized_keys"
    if not card.ssh_keys:
        yield RemoveFile(keys)
        return
    # sshd passes over keys below a folder that somebody else may write to (StrictModes in sshd_config(5)).
    yield MakeFolder(facts.home, 0o700, facts.owner)
    yield MakeFolder(folder, 0o700, facts.owner)
    yield WriteFile(keys, "".join(f"{key}\n" for key in card.ssh_keys), PRIVATE, facts.owner)
