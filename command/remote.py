"""What the console of another box says (``tributary --remote``)."""

import json
import os
import re
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from pydantic import ValidationError

from command.show import Listed
from tributary.api.console import Explanation, Look, Message, Sessions
from tributary.api.documents import Device, Link, Rule, Service, Session
from tributary.api.places import MOST_SESSIONS
from tributary.settings.errors import CommandError, Exit
from tributary.settings.hosts import as_address

TOKEN = "TRIBUTARY_TOKEN"
"""The environment variable that has a token of the API (``tributary console token``)."""
_TIMEOUT = 10.0
_LONGEST = 64 << 20
_RATED = 0.0
"""A moment that is always the same: the console has counted the rates already."""

_M = TypeVar("_M", bound=Message)


class _NoRedirects(HTTPRedirectHandler):
    """The console sends none: whoever does is another server, which gets no token."""

    def redirect_request(self, *_arguments: object) -> None:
        return None


class Answers:
    """What the console at ``url`` answers; each call is one request. All raise CommandError: exit 69 if nobody does,
    77 without a token where reading is closed.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        # No proxy of the environment either: it would read the token.
        self._opener = build_opener(ProxyHandler({}), _NoRedirects)
        self._look: Look | None = None

    def services(self) -> list[Service]:
        return list(self._seen().services)

    def links(self) -> Listed[Link]:
        return Listed(self._seen().links, _RATED)

    def notes(self) -> list[str]:
        """What is wrong there, in words, at the look of the last call."""
        return list((self._look or self._seen()).notes)

    def rules(self) -> Listed[Rule]:
        return Listed(self._seen().rules, _RATED)

    def sessions(self, **query: Any) -> Listed[Session]:
        """A page of the sessions that fit a ``query`` as ``box.Answers`` takes it; without an order of its own those
        that carry most come first.
        """
        asked: dict[str, Any] = {key: query[key] for key in ("token", "path", "offset") if key in query}
        if clients := query.get("clients"):
            asked["client"] = clients[0]
        if query.get("throttled"):
            asked["throttled"] = "true"
        if "sort" in query:
            asked["sort"] = f"{'-' * query['descending']}{query['sort']}"
        found = self._get("sessions", Sessions, limit=MOST_SESSIONS, **asked)
        return Listed(found.sessions, _RATED, found.total)

    def devices(self) -> Listed[Device]:
        seen = self._seen()
        return Listed(seen.devices, _RATED, seen.devices_total)

    def explain(self, *ends: str) -> Mapping[str, Any]:
        """Why a session's subflows are throttled, or why not, by its token."""
        if len(ends) != 1:
            raise CommandError(Exit.USAGE, f"{' '.join(ends)}: accepted with --remote: a session's token")
        (token,) = ends
        return self._get(f"explain/{quote(token, safe='')}", Explanation).model_dump(mode="json", exclude={"version"})

    def _seen(self) -> Look:
        self._look = self._get("look", Look)
        return self._look

    def _get(self, path: str, model: type[_M], **parameters: object) -> _M:
        query = f"?{urlencode(parameters)}" if parameters else ""
        request = Request(f"{self._url}/api/v1/{path}{query}")
        if token := self._token():
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with self._opener.open(request, timeout=_TIMEOUT) as response:
                # A newer console may say more.
                return model.model_validate_json(response.read(_LONGEST), extra="ignore")
        except HTTPError as error:
            raise self._refusal(error) from error
        except (OSError, HTTPException, UnicodeError) as error:
            why = getattr(error, "reason", None) or error
            raise CommandError(Exit.UNAVAILABLE, f"no console answers at {self._url}: {why}") from error
        except ValidationError as error:
            raise CommandError(Exit.UNAVAILABLE, f"{self._url} answers as no console of this version does") from error

    def _token(self) -> str:
        """That of the environment; raises CommandError, exit 64, where it would be read on its way."""
        token = os.environ.get(TOKEN, "")
        if not token:
            return ""
        if not re.fullmatch(r"[\w~.+/=-]+", token, re.ASCII):
            raise CommandError(Exit.USAGE, f"{TOKEN}: accepted: what 'tributary console token' prints")
        parts = urlsplit(self._url)
        address = as_address(parts.hostname or "")
        is_here = address.is_loopback if address else parts.hostname == "localhost"
        if parts.scheme != "https" and not is_here:
            raise CommandError(Exit.USAGE, f"{self._url}: accepted with a token: https://, or this machine (ssh -L)")
        return token

    def _refusal(self, error: HTTPError) -> CommandError:
        if error.code == HTTPStatus.UNAUTHORIZED and os.environ.get(TOKEN):
            return CommandError(Exit.NO_PERMISSION, f"{self._url}: the token in {TOKEN} is not accepted there")
        if error.code == HTTPStatus.UNAUTHORIZED:
            line = f"reading is closed: set {TOKEN} to what 'sudo tributary console token NAME' prints there"
            return CommandError(Exit.NO_PERMISSION, f"{self._url}: {line}")
        try:
            line = str(json.loads(error.read(4096))["error"])
        except (ValueError, LookupError, TypeError, OSError, HTTPException, RecursionError):
            line = f"status {error.code}"
        code = Exit.USAGE if error.code == HTTPStatus.BAD_REQUEST else Exit.UNAVAILABLE
        return CommandError(code, f"{self._url}: {line}")
