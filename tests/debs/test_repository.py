"""A signed repository of dummy packages and the apt of each release: Debian 13's verifies by sqv, others' by gpgv."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from debs.__main__ import main
from tests.debs import dummies
from tests.debs.chroot import Chroot
from tests.netns.world import needs

pytestmark = needs("apt-ftparchive")

PLACE = "/srv/repository"
ALONE = ("-o=Dir::Etc::sourcelist=/dev/null", "-o=APT::Sandbox::User=root")  # no other repository: no network


@pytest.fixture
def user(pristine: Chroot, suite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chroot]:
    """A machine that was told of the repository."""
    with pristine.copy(tmp_path / "user") as chroot, dummies.keyring() as keyring:
        monkeypatch.setenv("GNUPGHOME", str(keyring.home))
        made, debs = tmp_path / "repository", dummies.packages(tmp_path / "debs")
        words = ["--repository", str(made), "--packages", str(debs), "--url", f"file:{PLACE}"]
        assert main([*words, "--key", keyring.new("one"), "--valid-days", "7"]) == 0
        shutil.copytree(made, chroot.root / PLACE[1:])
        shutil.copy(made / "dists" / suite / "tributary.sources", chroot.root / "etc/apt/sources.list.d")
        yield chroot


def test_this_releases_apt_installs_from_it(user: Chroot) -> None:
    user.run("apt-get", *ALONE, "update", "--error-on=any")
    user.run("apt-get", *ALONE, "install", "--yes", *dummies.NAMES)
    assert user.run("dpkg-query", "--show", "--showformat=${db:Status-Status}\n", *dummies.NAMES).stdout == (
        "installed\n" * 2
    )


def test_this_releases_apt_refuses_what_somebody_changed(user: Chroot, suite: str) -> None:
    release = user.root / PLACE[1:] / "dists" / suite / "InRelease"
    release.write_text(release.read_text().replace("Origin: Tributary", "Origin: Debian"))
    assert user.run("apt-get", *ALONE, "update", "--error-on=any", check=False).returncode == 100
    assert user.run("apt-get", *ALONE, "install", "--yes", *dummies.NAMES, check=False).returncode == 100
