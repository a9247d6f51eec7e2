"""What the page shows, as HTML. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from console import password
from image.firstboot import public_key
from image.firstboot.interfaces import Interface
from image.firstboot.page.form import LINK, Form
from image.firstboot.settings import Card
from tributary.settings.templates import rendered

WRONG_CODE = "The code is another one: it is above the login prompt of the box's screen, and in tributary-applied.txt."

_PRIVATE_KEY = (
    "ssh_keys: one with a private key, which belongs nowhere but to its owner, and was not kept: accepted: the one line"
    " of the file beside it that ends in .pub. It came here in clear: if others share the wire, make a new pair."
)

_TEMPLATE = Path(__file__).parent / "page.html.j2"
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""For the header Content-Security-Policy: no script at all, and nothing from anywhere else."""


def wrong_keys(form: Form) -> str | None:
    """What is wrong with the SSH keys of a form, without a word of them: one may be a secret, or a part of it."""
    # Somebody took the wrong one of two files: OpenSSH's, PEM's, or PuTTY's.
    if any(words in form.ssh_keys for words in ("PRIVATE KEY", "Private-Lines")):
        return _PRIVATE_KEY
    # Private ones cut out of their files, or another field's secret.
    lines = enumerate(form.ssh_keys.split("\n"), 1)
    wrong = ", ".join(str(number) for number, line in lines if line.strip() and not public_key.is_key(line))
    if not wrong:
        return None
    return f"ssh_keys: no key in line {wrong}, and nothing of it was kept: accepted: {public_key.ACCEPTED}"


def wrong_password(form: Form) -> str | None:
    """What is wrong with the password of a form."""
    is_short = 0 < len(form.password) < password.SHORTEST
    return f"password: accepted: {password.SHORTEST} signs or more" if is_short else None


@dataclass(frozen=True)
class Verdict:
    """On a form: what is ``wrong`` with it, or what would come of it, in sentences and in ``files`` and units."""

    wrong: Sequence[str] = ()
    steps: Sequence[str] = ()
    files: Sequence[str] = ()


def form(
    given: Form,
    card: Card,
    interfaces: Sequence[Interface],
    verdict: Verdict,
    *,
    keeps_tables: bool,
    keeps_password: bool,
) -> str:
    """The form as it was filled in, without what was secret in it, below the verdict on it."""
    kept = {"keeps_tables": keeps_tables, "keeps_password": keeps_password}
    about = {"form": given, "card": card, "interfaces": interfaces, "link": LINK, "shortest": password.SHORTEST}
    return _page("form", **about, **vars(verdict), **kept)


def started(steps: Sequence[str], console: str | None) -> str:
    """The last page; ``console`` is the address of the console's, which comes when this one is gone."""
    return _page("started", steps=steps, console=console)


def refused(line: str) -> str:
    """Why there is no other answer."""
    return _page("refused", line=line)


def _page(view: str, **context: object) -> str:
    return rendered(_TEMPLATE, view=view, **context)
