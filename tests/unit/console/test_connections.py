"""How many connections the web server has at a time, of each address."""

from types import SimpleNamespace
from typing import Any

from console.connections import _OF_ONE, _Connections


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
