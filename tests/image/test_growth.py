"""A mounted file system that grows with its partition, which a container's root may not ask for."""

import os
from pathlib import Path

import pytest

from image.firstboot.apply import System, keep_up
from image.firstboot.upkeep import upkeep
from tests.netns.test_firstboot_growth import MIB, TABLES, card, found, pytestmark

__all__ = ["pytestmark"]


def may_resize() -> bool:
    """Whether this process has CAP_SYS_RESOURCE, which ext4 asks for (capabilities(7)); root in a container may not."""
    status = Path("/proc/self/status").read_text()
    return bool(int(status.partition("CapEff:")[2].split()[0], 16) >> 24 & 1)


@pytest.mark.skipif(not may_resize(), reason="needs CAP_SYS_RESOURCE")
@pytest.mark.parametrize("table", TABLES)
def test_the_file_system_fills_it_and_then_nothing_is_left_to_do(tmp_path: Path, table: str) -> None:
    with card(tmp_path, table) as mounted:
        for action in upkeep(found(mounted), has_host_keys=True):
            keep_up(action, System(Path("/"), running=True))
        assert os.statvfs(mounted).f_blocks * os.statvfs(mounted).f_frsize > 100 * MIB
        assert (mounted / "file").read_text() == "still here"
        assert upkeep(found(mounted), has_host_keys=True) == ()
