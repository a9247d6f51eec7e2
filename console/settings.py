"""The console's settings: /etc/tributary/console.toml, whose keys all have a default."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from console import password
from tributary.api.places import CONSOLE_PORT
from tributary.settings.files import Settings, load
from tributary.settings.hosts import as_address, host_and_port
from tributary.settings.values import accepting, as_text, or_none, require

_ADDRESSES = "a list of 'ADDRESS', 'IPV4:PORT' or '[IPV6]:PORT', each once"
_NAMES = "a list of 'NAME' or 'NAME:PORT'"
_READING = "'open': whoever reaches the page; 'closed': who has logged in"


def _addresses(value: object) -> tuple[str, ...]:
    addresses = _texts(value)
    places = [(as_address(host), port) for host, port in (host_and_port(each, CONSOLE_PORT) for each in addresses)]
    require(0 < len(places) == len({*places}) and all(address is not None for address, _ in places))
    return addresses


def _names(value: object) -> tuple[str, ...]:
    names = tuple(name.lower() for name in _texts(value))
    for each in names:
        host_and_port(each, CONSOLE_PORT)
    return names


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError
    return tuple(map(as_text, value))


PasswordHash = Annotated[str | None, accepting(password.HASH, or_none(password.checked))]


class ConsoleSettings(Settings):
    """Where the page is served, and to whom."""

    listen: Annotated[tuple[str, ...], accepting(_ADDRESSES, _addresses)] = Field(
        ("127.0.0.1",), title="where it listens, at port 8480 unless named"
    )
    names: Annotated[tuple[str, ...], accepting(_NAMES, _names)] = Field(
        (), title="names of the page, besides its addresses"
    )
    reading: Literal["open", "closed"] = Field("open", title="who may look", description=_READING)
    password_hash: PasswordHash = Field(None, title="of the password, while root has set no other")
    certificate: Path | None = Field(None, strict=False, title="for HTTPS", description="the path of a PEM file")
    key: Path | None = Field(None, strict=False, title="the certificate's key", description="the path of a PEM file")
    own_certificate: bool = Field(False, title="HTTPS by its own certificate, self-signed")

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where it listens: addresses and ports."""
        return [host_and_port(each, CONSOLE_PORT) for each in self.listen]

    @property
    def hosts(self) -> list[str]:
        """By which browsers ask for it: addresses, but for those that mean all of a machine's, and names."""
        named = (host_and_port(each, CONSOLE_PORT) for each in self.names)
        return [host for host, _ in (*self.addresses, *named) if host not in ("0.0.0.0", "::")]

    @model_validator(mode="after")
    def _has_both(self) -> "ConsoleSettings":
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key: accepted: both, or neither")
        if self.own_certificate and self.certificate is not None:
            raise ValueError("own_certificate: accepted: true without certificate and key")
        return self

    @property
    def scheme(self) -> str:
        """Of the page's addresses."""
        return "https" if self.own_certificate or self.certificate is not None else "http"


def read(file: Path) -> ConsoleSettings:
    """Read ``file``; raises CommandError, exit 64 or 66."""
    return load(file, ConsoleSettings)
