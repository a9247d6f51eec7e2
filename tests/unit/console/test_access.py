from types import SimpleNamespace
from typing import Any

import pytest

from console.access import LOGIN_LIFETIME, TOKEN_LIFETIME, Attempts, Logins, checked_tokens, counted_as
from console.connections import _OF_ONE, _Connections


def test_a_token_logs_in_once_and_in_time() -> None:
    logins = Logins()
    token = logins.token("ada", 0.0)
    assert logins.redeemed(token, 1.0) == "ada"
    assert logins.redeemed(token, 1.0) is None
    assert logins.redeemed(logins.token("ada", 0.0), TOKEN_LIFETIME) is None
    assert logins.redeemed("", 0.0) is None


def test_a_login_holds_at_its_address_until_it_is_over() -> None:
    logins = Logins()
    secret = logins.login("ada", "192.0.2.1", 0.0)
    person = logins.person(secret, "192.0.2.1", LOGIN_LIFETIME - 1)
    assert person is not None and person.name == "ada"
    assert logins.person(secret, "192.0.2.2", 1.0) is None  # a stolen cookie
    assert logins.person(secret, "192.0.2.1", LOGIN_LIFETIME) is None
    logins.logout(secret)
    assert logins.person(secret, "192.0.2.1", 1.0) is None


def test_too_many_logins_make_the_oldest_go_and_all_can_be_logged_out_at_once() -> None:
    logins = Logins()
    secrets = [logins.login("ada", "192.0.2.1", 0.0) for _ in range(101)]
    there = [logins.person(secret, "192.0.2.1", 1.0) is not None for secret in secrets]
    assert there == [False] + [True] * 100
    logins = Logins()
    secret, token = logins.login("ada", "192.0.2.1", 0.0), logins.token("eve", 0.0)
    logins.logout_all()
    assert logins.person(secret, "192.0.2.1", 1.0) is None and logins.redeemed(token, 1.0) is None


def test_wrong_passwords_are_bounded_by_address_and_together_and_an_ipv4_address_is_the_same_in_ipv6() -> None:
    attempts = Attempts()
    taken = sum(attempts.admits("192.0.2.1", second / 10) for second in range(1000))
    assert taken == Attempts.AT_ONCE + 100 // Attempts.PAUSE
    assert attempts.admits("192.0.2.2", 100.0)  # somebody else still may
    attempts = Attempts()
    assert sum(attempts.admits(f"{prefix}192.0.2.1", 0.0) for prefix in ("", "::ffff:") * 10) == Attempts.AT_ONCE
    attempts = Attempts()
    assert sum(attempts.admits(f"192.0.2.{number}", 0.0) for number in range(200)) == Attempts.ALL_AT_ONCE


def test_the_addresses_of_an_ipv6_network_have_a_limit_together() -> None:
    attempts = Attempts()
    taken = sum(attempts.admits(f"2001:db8::{number:x}", 0.0) for number in range(1, 40))
    assert taken == Attempts.NETWORK_AT_ONCE
    assert attempts.admits("2001:db8:0:1::1", 0.0)  # somebody else still may
    attempts.forget("2001:db8::1")
    assert not attempts.admits("2001:db8::1", 0.0)


@pytest.mark.parametrize("network", ["2001:db8::{}", "fe80::{}%eth0"])
def test_one_device_of_a_lan_shuts_no_other_one_out(network: str) -> None:
    attempts = Attempts()
    taken = sum(attempts.admits(network.format(1), second / 10) for second in range(6000))
    assert taken <= Attempts.AT_ONCE + 600 // Attempts.PAUSE
    assert all(attempts.admits(network.format(2), 600.0) for _ in range(Attempts.AT_ONCE))
    assert not attempts.admits(network.format(2), 600.0)
    attempts.forget(network.format(2))
    assert attempts.admits(network.format(2), 600.0)
    assert sum(attempts.admits(network.format(1), 600.0) for _ in range(9)) <= 1  # its own are not forgotten


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::2", "2001:db8::"),
        ("fe80::2%eth0", "fe80::"),
        ("", ""),
    ],
)
def test_limits_count_ipv6_by_its_networks(address: str, counted: str) -> None:
    assert counted_as(address) == counted


def test_who_succeeds_has_not_failed() -> None:
    attempts = Attempts()
    for _ in range(3 * Attempts.AT_ONCE):
        assert attempts.admits("192.0.2.1", 0.0)
        attempts.forget("192.0.2.1")


class Transport:
    """A connection from an address, which has no request under way."""

    def __init__(self, address: str) -> None:
        self._peer = (address, 40000)
        self.is_aborted = False

    def get_extra_info(self, _name: str) -> tuple[str, int]:
        return self._peer

    def abort(self) -> None:
        self.is_aborted = True


def test_the_addresses_of_an_ipv6_network_have_as_many_connections_as_one_address() -> None:
    there, protocol = _Connections(), SimpleNamespace(is_awaited=True)
    made: list[Any] = [Transport(f"2001:db8::{number:x}") for number in range(_OF_ONE)]
    others: list[Any] = [Transport(f"2001:db8:0:{number:x}::1") for number in range(1, 100)]
    for each in (*made, *others):
        there.add(each, protocol)  # type: ignore[arg-type]
    assert not any(each.is_aborted for each in (*made, *others))
    one_more: Any = Transport("2001:db8::ffff")
    there.add(one_more, protocol)  # type: ignore[arg-type]
    assert [each.is_aborted for each in made] == [True] + [False] * (_OF_ONE - 1)


@pytest.mark.parametrize("document", [[], {"xy": "ada"}, {"00ff": None}, {"00ff": 5}])
def test_tokens_that_are_none_are_refused(document: object) -> None:
    with pytest.raises(ValueError):
        checked_tokens(document)


def test_tokens_are_names_by_their_digest() -> None:
    assert checked_tokens({"00FF": "ada"}) == {"00ff": "ada"}
