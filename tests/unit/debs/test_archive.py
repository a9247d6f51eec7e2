"""The .deb files, read back by dpkg-deb."""

import os
import shutil
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from debs import archive, parts
from tests.unit.debs.sample import COMMIT, inputs, release

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg-deb")

MADE_OF = inputs(release())
SQUID = parts.packages(MADE_OF)[3]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return archive.build(SQUID, MADE_OF, tmp_path_factory.mktemp("packages"))


def members(package: Path, part: str) -> list[tarfile.TarInfo]:
    tar = subprocess.run(["dpkg-deb", part, package], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(tar)) as opened:
        return opened.getmembers()


def test_its_name_is_debians_and_nothing_else_is_left_beside_it(built: Path) -> None:
    assert built.name == "tributary-squid_0.1.0+git20261121.170133.abc1234-1~deb13_all.deb"
    assert list(built.parent.iterdir()) == [built]


def test_the_same_inputs_give_the_same_bytes_at_another_umask_and_time(built: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        again = archive.build(SQUID, MADE_OF, tmp_path)
    finally:
        os.umask(before)
    assert again.read_bytes() == built.read_bytes()


def test_everything_is_roots_with_plain_modes_and_as_old_as_the_commit(built: Path) -> None:
    for part in ("--fsys-tarfile", "--ctrl-tarfile"):
        for member in members(built, part):
            assert (member.uid, member.gid, member.mtime) == (0, 0, COMMIT.time)
    files = members(built, "--fsys-tarfile")
    assert {member.mode for member in files if member.isdir()} == {0o755}
    assert {member.name for member in files if member.isfile() and member.mode != 0o644} == {
        "./usr/bin/tributary-squid"
    }


def test_md5sums_are_those_of_the_files_without_conffiles(built: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "--raw-extract", built, tmp_path / "raw"], check=True)
    subprocess.run(["md5sum", "--check", "--quiet", "DEBIAN/md5sums"], cwd=tmp_path / "raw", check=True)
    assert "etc/tributary" not in (tmp_path / "raw/DEBIAN/md5sums").read_text()
