"""What the tests in this folder share with those of the other experiments. Its two files run side by side."""

from tests.measured.conftest import no_orphans as no_orphans
