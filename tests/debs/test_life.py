"""A package's whole life: the same bytes each time it is made, an upgrade, a removal, and a purge."""

import shutil

import pytest

from tests.debs.chroot import Chroot
from tests.debs.world import NAMES, Made

KEYS = ("backend", "front", "overlay", "overlay-agent", "overlay-controller", "switch")
"""Folders of certificates, as the manual pages and playbooks name them."""
EDITED = 'client_networks = ["10.0.0.0/8"]\nstate_directory = "/var/lib/tributary/squid"\n'


def test_all_packages_are_the_same_bytes_when_made_again(made: Made) -> None:
    assert [path.name for path in made.now] == [path.name for path in made.again]
    assert all(one.read_bytes() == other.read_bytes() for one, other in zip(made.now, made.again, strict=True))


def test_an_upgrade_keeps_what_the_administrator_changed(debian: Chroot, made: Made) -> None:
    (debian.root / "etc/tributary/squid.toml").write_text(EDITED)
    debian.run("systemctl", "disable", "tributary-throttler.service")
    debian.install(made.later)
    shown = debian.run("dpkg-query", "--show", "--showformat=${Version}\n", *NAMES).stdout
    assert set(shown.split()) == {made.newer.version}
    assert (debian.root / "etc/tributary/squid.toml").read_text() == EDITED
    assert sorted(path.name for path in (debian.root / "etc/tributary").iterdir()) == [
        "backend.conf",
        "console.toml",
        "converter.toml",
        "gateway.toml",
        "overlay-agent.conf",
        "overlay-controller.conf",
        "overlay.conf",
        "router.toml",
        "squid.toml",
        "switch.conf",
        "throttler.toml",
    ]
    wanted = debian.root / "etc/systemd/system/multi-user.target.wants"
    assert not (wanted / "tributary-throttler.service").is_symlink()
    assert (wanted / "tributary-squid.service").is_symlink()
    debian.run("tributary-squid", "check", "/etc/tributary/squid.toml")


def test_a_purge_leaves_nothing(pristine: Chroot, debian: Chroot) -> None:
    _live(debian)
    # In the order of a person who does not know who needs whom.
    debian.run("dpkg", "--purge", *NAMES)
    before, after = pristine.files(), debian.files()
    assert (after - before, before - after) == (set(), set())


def test_a_removal_keeps_the_settings_and_installing_again_takes_them_up(debian: Chroot, made: Made) -> None:
    (debian.root / "etc/tributary/squid.toml").write_text(EDITED)
    debian.run("dpkg", "--remove", *NAMES)
    assert not (debian.root / "usr/lib/tributary").exists()
    assert (debian.root / "etc/tributary/squid.toml").read_text() == EDITED
    debian.install(made.now)
    assert (debian.root / "etc/tributary/squid.toml").read_text() == EDITED


@pytest.mark.parametrize("suite", ["trixie"], indirect=True)
def test_lintian_has_nothing_to_say_and_no_override_is_for_nothing(debian: Chroot, made: Made) -> None:
    # Who answers for the packages is said by whoever makes them (DEBEMAIL), and a snapshot's version makes long names.
    quiet = (
        "bogus-mail-host,bogus-mail-host-in-debian-changelog,mail-address-loops-or-bounces,package-has-long-file-name"
    )
    options = ("--fail-on", "none", "--display-info", "--suppress-tags", quiet)
    said = debian.run("lintian", *options, *debian.take(made.now)).stdout.splitlines()
    assert [line for line in said if line.startswith(("E: ", "W: ")) or " unused-override " in line] == []


def _live(debian: Chroot) -> None:
    """What services leave behind, and an administrator."""
    root = debian.root
    for path in (
        "var/log/private/tributary-converter/access.log",
        "var/lib/tributary/throttler/quotas.json",
        "var/lib/tributary/squid/log/access.log",
        "var/lib/tributary/firstboot/applied.json",
        *(f"etc/tributary/{part}/node.key" for part in KEYS),
    ):
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text("{}\n")
    (root / "var/log/tributary-converter").symlink_to("private/tributary-converter")
    shutil.copy(root / "etc/tributary/squid.toml", root / "etc/tributary/squid.toml.dpkg-old")
    (root / "etc/tributary/squid.toml").write_text(EDITED)
    if (root / "usr/lib/systemd/system/tributary-converter.socket").exists():
        debian.run("systemctl", "enable", "tributary-converter.socket")
    debian.run("tributary-squid", "check", "/etc/tributary/squid.toml")
    debian.run("tributary-throttler", "plan", "/etc/tributary/throttler.toml")
