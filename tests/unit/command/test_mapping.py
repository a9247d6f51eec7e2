"""From the daemons' answers to the documents of the API."""

from dataclasses import replace

from command import mapping
from tests.unit.throttler.answer import answer


def test_a_session_counts_what_its_subflows_have() -> None:
    (session,) = mapping.sessions(answer())
    assert (session.token, session.client) == ("1a2b3c4d", "10.0.1.2")
    assert (session.throttled, session.sent, session.received) == (1, 3000, 45)
    held, free = session.subflows
    assert (held.local, held.rule, held.rtt) == ("10.0.1.1:3128", "wired-slow", 0.02)
    assert (free.path, free.backup, free.rule) == (None, True, None)


def test_a_path_shows_the_limit_that_the_command_set_and_no_other_rules_rate() -> None:
    status = answer()
    rules = [rule for rule in status.rules if rule.rate]
    assert all(path.limit is None for path in mapping.paths(status))
    limited = answer(rules=(replace(rules[0], name=f"limit-{status.paths[0].name}"),))
    assert mapping.paths(limited)[0].limit == "5mbit"
