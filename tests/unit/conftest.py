"""What unit tests share: the converter, where it is built or can be."""

from pathlib import Path

import pytest

from experiments.testbed import native
from tributary.settings.errors import CommandError, Exit


@pytest.fixture(scope="session")
def converter() -> Path:
    """The native converter; who has neither it nor cargo leaves the test out."""
    try:
        return native.build().converter
    except CommandError as missing:
        if missing.code != Exit.UNAVAILABLE:
            raise
        pytest.skip(str(missing))
