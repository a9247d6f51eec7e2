"""What the tests of real block devices need of a machine; what is missing is named."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.devices.flashing import IMAGE
from tests.unit.image.flash.made import files


@pytest.fixture(scope="session", autouse=True)
def loop_devices() -> None:
    """Skips without root, or where no loop device can be had."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if subprocess.run(["losetup", "--find"], capture_output=True, check=False, timeout=30).returncode != 0:
        pytest.skip("needs a loop device (CONFIG_BLK_DEV_LOOP)")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """With its checksum beside it."""
    return files(tmp_path, IMAGE)
