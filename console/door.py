"""Who comes in: by a one-time token or a password with a browser, by a token of the API without one."""

import asyncio
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from console import access, password, requests
from console.access import Attempts, Logins, Person
from console.requests import Needs, Refused
from console.settings import ConsoleSettings
from tributary.api.console import Login, Who
from tributary.daemons.state_file import StateFile
from tributary.settings.errors import CommandError, Exit

COOKIE = "tributary-console"
_MOST_TOKENS = 100
_LONGEST_NAME = 40


class Door:
    """Lets requests in. ``state`` is the folder of password and tokens; ``tell`` gets what is wrong with these."""

    def __init__(self, state: Path, settings: ConsoleSettings, tell: Callable[[str], None]) -> None:
        self._password, self._tokens = StateFile(state / "password.json"), StateFile(state / "tokens.json")
        self._settings, self._tell = settings, tell
        self._logins, self._attempts = Logins(), Attempts()
        self._hashing = asyncio.Lock()
        self._names = self._tokens.read(access.checked_tokens, tell) or {}
        """Of tokens, by their hash."""

    # What root asks.

    def new_login(self, name: str) -> str:
        """A one-time token for ``name``."""
        return self._logins.token(name[:_LONGEST_NAME], time.monotonic())

    def logout_all(self) -> None:
        self._logins.logout_all()

    def set_password(self, given: str) -> None:
        """Set it, or take it away if it is empty; all are logged out. Raises CommandError, exit 64 or 71."""
        if not given:
            self._password.remove()
        elif len(given) < password.SHORTEST:
            raise CommandError(Exit.USAGE, f"password: accepted: {password.SHORTEST} signs or more")
        else:
            self._password.replace(password.hashed(given))
        self._logins.logout_all()

    @property
    def tokens(self) -> list[str]:
        """The names of the API's tokens."""
        return sorted(self._names.values())

    def new_token(self, name: str) -> str:
        """A token of the API that may read, in place of an older one of that name; raises CommandError."""
        if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            raise CommandError(Exit.USAGE, f"{name!r}: accepted: a name of up to {_LONGEST_NAME} signs")
        others = {made: each for made, each in self._names.items() if each != name}
        if len(others) >= _MOST_TOKENS:
            raise CommandError(Exit.USAGE, f"there are {_MOST_TOKENS} tokens: remove one")
        secret = access.secret()
        self._keep({**others, access.digest(secret): name})
        return secret

    def remove_token(self, name: str) -> None:
        """Remove the API's token of this name; raises CommandError, exit 64, if there is none."""
        others = {made: each for made, each in self._names.items() if each != name}
        if len(others) == len(self._names):
            raise CommandError(Exit.USAGE, f"{name}: accepted: {', '.join(self.tokens) or 'none, there is no token'}")
        self._keep(others)

    def _keep(self, names: dict[str, str]) -> None:
        self._tokens.replace(names)
        self._names = names

    # What requests ask.

    def admit(self, request: Request, needs: Needs) -> None:
        """Raise Refused unless the request may have what it ``needs``."""
        if not self.may(request, needs):
            line = "log in first: sudo tributary console login prints an address that does"
            raise Refused(HTTPStatus.UNAUTHORIZED, line)

    def may(self, request: Request, needs: Needs) -> bool:
        is_free = needs == "nothing" or (needs == "reading" and self._settings.reading == "open")
        return is_free or self._person(request) is not None or (needs == "reading" and self._has_token(request))

    def name(self, request: Request) -> str:
        """Who asks; raises Refused."""
        person = self._person(request)
        if person is None:  # it has just run out
            raise Refused(HTTPStatus.UNAUTHORIZED, "log in again")
        return person.name

    def _has_token(self, request: Request) -> bool:
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and access.digest(secret.strip()) in self._names

    def _person(self, request: Request) -> Person | None:
        secret = request.cookies.get(COOKIE)
        return self._logins.person(secret, requests.address(request), time.monotonic()) if secret else None

    async def who(self, request: Request) -> Who:
        person = self._person(request)
        has_password = self._kept_password() is not None
        name = person.name if person else None
        return Who(manages=person is not None, name=name, reading=self._settings.reading, password=has_password)

    async def login(self, request: Request, asked: Login) -> Response:
        """Log in; the answer has a cookie."""
        address, now = requests.address(request), time.monotonic()
        # Nobody guesses 256 bits: a token works also while somebody tries passwords.
        if not asked.token and not self._attempts.admits(address, now):
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "too many attempts: wait for half a minute")
        name = self._logins.redeemed(asked.token, now) if asked.token else await self._by_password(asked.password or "")
        if name is None:
            by_token = "wrong, or used already: sudo tributary console login prints a new address"
            raise Refused(HTTPStatus.FORBIDDEN, by_token if asked.token else "the password is wrong")
        self._attempts.forget(address)
        answer = Response(status_code=HTTPStatus.NO_CONTENT)
        answer.set_cookie(
            COOKIE,
            self._logins.login(name, address, now),
            max_age=int(access.LOGIN_LIFETIME),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    async def _by_password(self, given: str) -> str | None:
        # One at a time: each takes up to 64 MiB.
        async with self._hashing:
            kept = self._kept_password()
            if kept is None or not await asyncio.to_thread(password.fits, given, kept):
                return None
            # Root may have set another one meanwhile.
            return "password" if kept == self._kept_password() else None

    def _kept_password(self) -> str | None:
        return self._password.read(password.checked, self._tell) or self._settings.password_hash

    async def logout(self, request: Request) -> Response:
        self._logins.logout(request.cookies.get(COOKIE, ""))
        answer = Response(status_code=HTTPStatus.NO_CONTENT)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer
