"""Where the console of another box is: the value of ``tributary --remote``."""

import re
from urllib.parse import urlsplit

from tributary.api.places import CONSOLE_PORT
from tributary.settings.cli import parsed_by
from tributary.settings.hosts import as_address, host_and_port, joined
from tributary.settings.values import require


def _url(text: str) -> str:
    parts = urlsplit(text if "://" in text else f"http://{text}")
    host, port = host_and_port(parts.netloc, CONSOLE_PORT)
    is_plain = not (parts.path.strip("/") or parts.query or parts.fragment)
    is_host = as_address(host) is not None or re.fullmatch(r"(?:[\w-]+\.)*[\w-]+\.?", host, re.ASCII) is not None
    require(parts.scheme in ("http", "https") and is_plain and is_host)
    return f"{parts.scheme}://{joined(host, port)}"


url = parsed_by(_url, "HOST, HOST:PORT, or https:// before one of them")
"""The URL of a console, of HOST, HOST:PORT or a URL; raises ArgumentTypeError."""
