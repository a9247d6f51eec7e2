"""The connection into an image's root. This machine's own root stands for it: chroot(8) into / changes nothing."""

import os
import platform
from pathlib import Path

import pytest

from tests.ansible.playbooks import HERE, needs_ansible, play

pytestmark = [needs_ansible, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


def test_a_root_folder_is_written_read_and_asked_like_a_host(tmp_path: Path) -> None:
    said = ("-e", "tributary_image_root=/", "-e", f"folder={tmp_path}")
    done = play(HERE / "root.yml", "image,", tmp_path, *said)
    assert done.returncode == 0, done.stdout + done.stderr
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    assert (tmp_path / "written").read_text() == (tmp_path / "fetched").read_text() == f"{release}\n"
    assert (tmp_path / "said").read_text() == "0\n/root /usr/sbin:/usr/bin:/sbin:/bin"


def test_a_folder_without_python_is_refused_by_name(tmp_path: Path) -> None:
    said = ("-e", f"tributary_image_root={tmp_path}", "-e", f"folder={tmp_path}")
    done = play(HERE / "root.yml", "image,", tmp_path, *said)
    assert done.returncode != 0
    assert f"{tmp_path}: accepted: the root folder of a system that has python3" in " ".join(done.stdout.split())
