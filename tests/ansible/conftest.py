"""What the roles render for the example inventories, made once for all tests of this folder."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.ansible.playbooks import HERE, INVENTORIES, play

Rendered = Mapping[str, Path]


@pytest.fixture(scope="session")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Rendered:
    """The folder of the first gateway, gw1, by inventory; those beside it get the same."""
    folders = {}
    for inventory in INVENTORIES:
        folder = tmp_path_factory.mktemp(inventory)
        done = play(HERE / "render.yml", inventory, folder, "--limit", "all:!gw[2-9]*", "-e", f"folder={folder}")
        assert done.returncode == 0, done.stdout + done.stderr
        folders[inventory] = folder / "gw1.example.net"
    return folders
