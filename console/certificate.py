"""A certificate of the console's own, which it signs itself: made once, and again where its names are others."""

import hashlib
import ssl
from collections.abc import Iterable
from pathlib import Path

from tributary.daemons.state_file import unlink, write_atomic
from tributary.kernel import process
from tributary.settings.hosts import as_address

_DAYS = "36500"
"""Nothing renews it, and a box may make it before it knows the time."""
_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_BEGIN = "-----BEGIN CERTIFICATE-----"


def own(folder: Path, hosts: Iterable[str]) -> tuple[Path, Path]:
    """The certificate for ``hosts`` in ``folder``, and its key; raises CommandError, exit 71, 69 without openssl(1)."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    # What is in front of a certificate in PEM is a comment: the names.
    names = ",".join(_names(hosts))
    if not (certificate.exists() and certificate.read_bytes().startswith(f"{names}\n".encode())):
        extensions = ("-addext", f"subjectAltName={names}", "-addext", "basicConstraints=critical,CA:FALSE")
        request = ("openssl", "req", "-x509", "-config", "/dev/null", *_CURVE, "-days", _DAYS, *extensions)
        made = process.output((*request, "-subj", "/CN=Tributary console", "-keyout", "-", "-out", "-"))
        # First without any: a certificate that is there has its key.
        unlink(certificate)
        write_atomic(key, made.partition(_BEGIN)[0].encode())
        write_atomic(certificate, f"{names}\n{_BEGIN}{made.partition(_BEGIN)[2]}".encode())
    return certificate, key


def fingerprint(certificate: Path) -> str:
    """Its SHA-256, as browsers show it."""
    pem = _BEGIN + certificate.read_text().partition(_BEGIN)[2]
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).digest().hex(":").upper()


def _names(hosts: Iterable[str]) -> Iterable[str]:
    """As ``subjectAltName`` of x509v3_config(5)."""
    for host in dict.fromkeys(("localhost", *hosts)):
        address = as_address(host.partition("%")[0])
        yield f"DNS:{host}" if address is None else f"IP:{address}"
