"""What the tests in this folder need: root, for chroots, and mmdebstrap, to make them."""

import os
import shutil

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = os.path.dirname(__file__)  # noqa: PTH120 - a prefix of text
    marks = (
        pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
        pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="no mmdebstrap"),
        # The first time a Debian is made, and the converter built.
        pytest.mark.timeout(1800),
    )
    for item in items:
        if str(item.path).startswith(here):
            for mark in marks:
                item.add_marker(mark)
