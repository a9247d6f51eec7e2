"""Who may do what: one-time tokens, logins, and how often one may try. Pure but for chance."""

import hashlib
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address

from tributary.daemons.state_file import document_of
from tributary.settings.hosts import as_address

TOKEN_LIFETIME = 300.0
"""Seconds for which a one-time token is good."""
LOGIN_LIFETIME = 12 * 3600.0
"""Seconds after which one has to log in again."""
_MOST = 100
"""One-time tokens, and logins: the oldest go."""


@dataclass(frozen=True)
class Person:
    """Who has logged in, from which address, and until when that holds."""

    name: str
    address: str
    until: float


class Logins:
    """One-time tokens and logins, by the hash of their secret; times are those of any clock that never goes back."""

    def __init__(self) -> None:
        self._tokens: OrderedDict[str, Person] = OrderedDict()
        self._logins: OrderedDict[str, Person] = OrderedDict()

    def token(self, name: str, now: float) -> str:
        """A new one-time token for ``name``."""
        return _added(self._tokens, Person(name, "", now + TOKEN_LIFETIME))

    def redeemed(self, token: str, now: float) -> str | None:
        """Whose the token is, which is no longer good; None if it is nobody's."""
        person = self._tokens.pop(digest(token), None)
        return person.name if person and now < person.until else None

    def login(self, name: str, address: str, now: float) -> str:
        """The secret of a new login of ``name`` at ``address``."""
        return _added(self._logins, Person(name, address, now + LOGIN_LIFETIME))

    def person(self, secret: str, address: str, now: float) -> Person | None:
        """Who has logged in with this secret. From another address it is somebody else's, who has stolen it."""
        person = self._logins.get(digest(secret))
        return person if person and person.address == address and now < person.until else None

    def logout(self, secret: str) -> None:
        self._logins.pop(digest(secret), None)

    def logout_all(self) -> None:
        self._logins.clear()
        self._tokens.clear()


def _added(people: OrderedDict[str, Person], person: Person) -> str:
    made = secret()
    people[digest(made)] = person
    while len(people) > _MOST:
        people.popitem(last=False)
    return made


def secret() -> str:
    """A new secret of 256 bits."""
    return secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """What is kept of a secret that nobody guesses."""
    return hashlib.sha256(secret.encode()).hexdigest()


_NAMES = document_of(dict[str, str])


def checked_tokens(document: object) -> dict[str, str]:
    """Names by the digest of their token; raises ValueError if it is something else."""
    return {bytes.fromhex(made).hex(): name for made, name in _NAMES(document).items()}


@lru_cache(1024)
def counted_as(address: str) -> str:
    """Whom limits for each address count: of IPv6 the /64, in which one device may have any address (RFC 4291)."""
    found = as_address(address)
    if not isinstance(found, IPv6Address):
        return address
    return str(found.ipv4_mapped or IPv6Address(int(found) >> 64 << 64))


class Attempts:
    """Failed attempts to log in: some at once, then one in a while; for each address, of IPv6 also for each /64, and
    for all together.

    An attempt that is refused for its address is not counted for the others of its network: one device of a LAN shuts
    nobody else out, unless it takes many addresses.
    """

    AT_ONCE, PAUSE = 5, 30.0
    NETWORK_AT_ONCE, NETWORK_PAUSE = 20, 5.0
    ALL_AT_ONCE, ALL_PAUSE = 50, 3.0

    def __init__(self) -> None:
        self._all = _Bucket(self.ALL_AT_ONCE, self.ALL_PAUSE)
        self._addresses = _Buckets(self.AT_ONCE, self.PAUSE)
        self._networks = _Buckets(self.NETWORK_AT_ONCE, self.NETWORK_PAUSE)

    def admits(self, address: str, now: float) -> bool:
        """Whether one more attempt is taken; it counts as failed until ``forget``."""
        own, network = _keys(address)
        return (
            self._addresses.takes(own, now)
            and (own == network or self._networks.takes(network, now))
            and self._all.takes(now)
        )

    def forget(self, address: str) -> None:
        """Forget the attempts of an address, which has succeeded."""
        own, _ = _keys(address)
        self._addresses.forget(own)


def _keys(address: str) -> tuple[str, str]:
    """What an address and its network count as; of IPv4 it is the same."""
    network = counted_as(address)
    return (address if ":" in network else network), network


class _Buckets:
    """One for each key, of the keys that were used last."""

    _MOST = 1000

    def __init__(self, most: int, pause: float) -> None:
        self._most, self._pause = most, pause
        self._by_key: OrderedDict[str, _Bucket] = OrderedDict()

    def takes(self, key: str, now: float) -> bool:
        bucket = self._by_key.setdefault(key, _Bucket(self._most, self._pause))
        self._by_key.move_to_end(key)
        while len(self._by_key) > self._MOST:
            self._by_key.popitem(last=False)
        return bucket.takes(now)

    def forget(self, key: str) -> None:
        self._by_key.pop(key, None)


class _Bucket:
    """``most`` at once, and one more after each ``pause`` seconds."""

    def __init__(self, most: int, pause: float) -> None:
        self._most, self._pause = most, pause
        self._level, self._at = float(most), 0.0

    def takes(self, now: float) -> bool:
        self._level = min(self._most, self._level + max(0.0, now - self._at) / self._pause)
        self._at = now
        if self._level < 1:
            return False
        self._level -= 1
        return True
