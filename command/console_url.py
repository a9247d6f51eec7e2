"""Where the console of another box is: the value of ``tributary --remote``."""

import re
from argparse import ArgumentTypeError
from urllib.parse import urlsplit

from tributary.api.places import CONSOLE_PORT
from tributary.settings.hosts import as_address, host_and_port, joined


def url(text: str) -> str:
    """The URL of a console, of HOST, HOST:PORT or a URL; raises ArgumentTypeError."""
    given = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(given)
        host, port = host_and_port(parts.netloc, CONSOLE_PORT)
        is_plain = not (parts.path.strip("/") or parts.query or parts.fragment)
        is_host = as_address(host) is not None or re.fullmatch(r"(?:[\w-]+\.)*[\w-]+\.?", host, re.ASCII) is not None
        if parts.scheme not in ("http", "https") or not is_plain or not is_host:
            raise ValueError
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r}: accepted: HOST, HOST:PORT, or https:// before one of them") from error
    return f"{parts.scheme}://{joined(host, port)}"
