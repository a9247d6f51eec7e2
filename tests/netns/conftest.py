"""Testbeds of the real kernel for the tests in this folder, each under a name of its own."""

from collections.abc import Iterator
from itertools import count

import pytest

from experiments.testbed.build import Testbed, standing, take_down_orphans
from experiments.testbed.profile import DEFAULT
from experiments.testbed.topology import Profile
from tests.netns.converter_world import conv, conv_built, net, running  # noqa: F401
from tests.netns.gateway_world import gateway  # noqa: F401
from tests.netns.handoff_world import handoff, handoff_network  # noqa: F401
from tests.netns.lan_world import home  # noqa: F401
from tests.netns.links_world import world  # noqa: F401
from tests.netns.overlay_world import empty  # noqa: F401
from tests.netns.router_world import house  # noqa: F401
from tests.netns.squid_world import squid_built  # noqa: F401
from tests.netns.throttler_world import policy, source  # noqa: F401
from tributary.settings.files import load

_numbers = count(1)


@pytest.fixture(scope="session", autouse=True)
def no_orphans() -> None:
    """What a killed run left is gone before any test looks at what the next run leaves."""
    take_down_orphans()


@pytest.fixture
def name() -> str:
    """A name that no other testbed of this run has."""
    return f"test{next(_numbers)}"


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    with standing(f"test{next(_numbers)}", load(DEFAULT, Profile)) as built:
        yield built


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    # Not at the top: other tests need no browser.
    from tests.netns.browser import launched

    with launched() as browser:
        yield browser
