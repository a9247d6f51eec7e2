"""Errors that a user can act on."""

import pytest

from tributary.settings.errors import CommandError, Exit, refused


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (OSError(28, "full"), "where"),
        (OSError(28, "full", "/a"), "/a"),
        # As shutil.copy2() has it: from, to.
        (OSError(28, "full", "/a", None, "/b"), "/b"),
    ],
)
def test_what_the_system_refuses_is_told_of_the_file_that_it_refused(error: OSError, named: str) -> None:
    with (
        pytest.raises(CommandError, match=f"^{named}: cannot be written: full$"),
        refused(Exit.SYSTEM, "where", "cannot be written"),
    ):
        raise error
