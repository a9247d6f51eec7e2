from pathlib import Path

from tributary.daemons import directories

USUAL = Path("/var/lib/usual")


def test_a_daemon_keeps_things_where_the_service_manager_says_or_in_the_usual_place() -> None:
    variables = {"STATE_DIRECTORY": "/var/lib/one:/var/lib/two", "RUNTIME_DIRECTORY": "/run/a"}
    assert directories.state(USUAL, variables) == Path("/var/lib/one")
    assert directories.runtime(USUAL, variables) == Path("/run/a")
    assert directories.state(USUAL, {}) == directories.runtime(USUAL, {"RUNTIME_DIRECTORY": ""}) == USUAL
