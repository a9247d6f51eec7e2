import shutil
import socket
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from console.certificate import fingerprint, own
from tests.refusals import command_error
from tributary.settings.errors import Exit

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
HOSTS = ("192.0.2.1", "fd00::1", "gw1.example.net")


def greeted(made: tuple[Path, Path], host: str) -> Mapping[str, object]:
    """The server's certificate, which a client that trusts it alone has found to be that of ``host``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*made)
    client = ssl.create_default_context(cafile=str(made[0]))
    ours, theirs = socket.socketpair()
    with ThreadPoolExecutor(1) as thread, ours, theirs:
        accepted = thread.submit(partial(context.wrap_socket, theirs, server_side=True))
        with client.wrap_socket(ours, server_hostname=host) as greeting:
            found = greeting.getpeercert()
        accepted.result().close()
    assert found
    return found


@pytest.mark.parametrize("host", ["localhost", *HOSTS])
def test_it_is_for_the_names_and_addresses_of_the_page_and_nobodys_authority(host: str, tmp_path: Path) -> None:
    certificate, key = own(tmp_path, HOSTS)
    assert greeted((certificate, key), host)["subjectAltName"] == (
        ("DNS", "localhost"), ("IP Address", "192.0.2.1"), ("IP Address", "FD00:0:0:0:0:0:0:1"),
        ("DNS", "gw1.example.net"),
    )  # fmt: skip
    assert key.stat().st_mode & 0o77 == 0 and "PRIVATE" not in certificate.read_text()
    assert ssl.create_default_context(cafile=str(certificate)).get_ca_certs() == []


def test_it_is_kept_until_the_names_are_others(tmp_path: Path) -> None:
    certificate, _ = own(tmp_path, HOSTS)
    first = fingerprint(certificate)
    own(tmp_path, HOSTS)
    assert fingerprint(certificate) == first
    greeted(own(tmp_path, ["gw2.example.net"]), "gw2.example.net")
    assert fingerprint(certificate) != first


def test_where_the_making_was_broken_off_it_is_made_anew(tmp_path: Path) -> None:
    certificate, _ = own(tmp_path, HOSTS)
    certificate.unlink()
    greeted(own(tmp_path, HOSTS), "192.0.2.1")


def test_without_openssl_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with command_error(Exit.UNAVAILABLE, "openssl is missing: install openssl"):
        own(tmp_path, HOSTS)
