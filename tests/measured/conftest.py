"""What the tests in this folder share."""

import pytest

from experiments.testbed.build import take_down_orphans


@pytest.fixture(autouse=True)
def no_orphans() -> None:
    """What a killed run left is gone before a test looks at what its own run leaves."""
    take_down_orphans()
