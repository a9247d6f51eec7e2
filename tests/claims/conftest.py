"""What the tests in this folder share with those of the other experiments."""

from tests.measured.conftest import no_orphans as no_orphans
