"""A package's whole life: the same bytes each time it is made, an upgrade, and a purge."""

import shutil
from pathlib import Path

import pytest

from packages.release import SUITES
from tests.packages.chroot import Chroot, unpacked
from tests.packages.world import NAMES, a_day_later, inputs, packed

EDITED = 'client_networks = ["10.0.0.0/8"]\nstate_directory = "/var/lib/tributary/squid"\n'

# Folders that systemd makes and keeps, wherever it runs.
_SYSTEMDS_OWN = ("var/log/private", "etc/systemd/system/sockets.target.wants")

suites = pytest.mark.parametrize("suite", SUITES)


@suites
def test_all_packages_are_the_same_bytes_when_made_again(suite: str, tmp_path: Path) -> None:
    one, other = packed(inputs(suite), tmp_path / "one"), packed(inputs(suite), tmp_path / "other")
    assert [path.name for path in one] == [path.name for path in other]
    assert all(first.read_bytes() == second.read_bytes() for first, second in zip(one, other, strict=True))


@suites
def test_an_upgrade_keeps_what_the_administrator_changed(suite: str, tmp_path: Path) -> None:
    made_of = inputs(suite)
    with unpacked(suite, tmp_path) as debian:
        debian.install(packed(made_of, tmp_path / "old"))
        (debian.root / "etc/tributary/squid.toml").write_text(EDITED)
        debian.run("systemctl", "disable", "tributary-throttler.service")
        debian.install(packed(a_day_later(made_of), tmp_path / "new"))
        shown = debian.run("dpkg-query", "--show", "--showformat=${Version}\n", *NAMES).stdout
        assert set(shown.split()) == {a_day_later(made_of).release.version}
        assert (debian.root / "etc/tributary/squid.toml").read_text() == EDITED
        assert sorted(path.name for path in (debian.root / "etc/tributary").iterdir()) == [
            "converter.toml",
            "cpe.toml",
            "squid.toml",
            "throttler.toml",
        ]
        wanted = debian.root / "etc/systemd/system/multi-user.target.wants"
        assert not (wanted / "tributary-throttler.service").is_symlink()
        assert (wanted / "tributary-squid.service").is_symlink()
        debian.run("tributary-squid", "check", "/etc/tributary/squid.toml")


@suites
def test_a_purge_leaves_nothing(suite: str, tmp_path: Path) -> None:
    with unpacked(suite, tmp_path) as debian:
        for path in _SYSTEMDS_OWN:
            (debian.root / path).mkdir(exist_ok=True)
        before = debian.files()
        debian.install(packed(inputs(suite), tmp_path / "made"))
        _live(debian)
        # In the order of a person who does not know who needs whom.
        debian.run("dpkg", "--purge", *NAMES)
        assert (debian.files() - before, before - debian.files()) == (set(), set())


@suites
def test_a_removal_keeps_the_settings_and_installing_again_takes_them_up(suite: str, tmp_path: Path) -> None:
    with unpacked(suite, tmp_path) as debian:
        packages = packed(inputs(suite), tmp_path / "made")
        debian.install(packages)
        (debian.root / "etc/tributary/squid.toml").write_text(EDITED)
        debian.run("dpkg", "--remove", *NAMES)
        assert not (debian.root / "usr/lib/tributary").exists()
        assert (debian.root / "etc/tributary/squid.toml").read_text() == EDITED
        debian.install(packages)
        assert (debian.root / "etc/tributary/squid.toml").read_text() == EDITED


def test_lintian_finds_no_error(tmp_path: Path) -> None:
    with unpacked("trixie", tmp_path) as debian:
        packages = packed(inputs("trixie"), tmp_path / "made")
        for package in packages:
            shutil.copy(package, debian.root / "tmp")
        # Who answers for the packages is said by whoever makes them (DEBEMAIL), and not by this test.
        quiet = "bogus-mail-host,bogus-mail-host-in-debian-changelog,mail-address-loops-or-bounces"
        files = [f"/tmp/{package.name}" for package in packages]
        said = debian.run("lintian", "--fail-on", "none", "--suppress-tags", quiet, *files)
        assert [line for line in said.stdout.splitlines() if line.startswith("E: ")] == []


def _live(debian: Chroot) -> None:
    """What services leave behind, and an administrator."""
    root = debian.root
    for path in (
        "var/log/private/tributary-converter/access.log",
        "var/lib/tributary/throttler/quotas.json",
        "var/lib/tributary/squid/log/access.log",
        "var/lib/tributary/firstboot/applied.json",
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
