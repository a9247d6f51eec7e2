"""The overlay's own certificate authority, a folder: signs certificates of nodes, controllers, etcd members, and of the
machines of a request hand-off."""

import datetime
import errno
import ipaddress
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from overlay.purposes import ADMINISTRATOR, OVERLAY, Purpose
from tributary.settings.errors import CommandError, Exit, refused

_AUTHORITY_DAYS = 3650
_USES = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
_SIGNS_CERTIFICATES = x509.KeyUsage(
    **dict.fromkeys(_USES, False), key_cert_sign=True, crl_sign=False, encipher_only=False, decipher_only=False
)
"""RFC 5280, 4.2.1.3: what an authority's certificate has to say. Python 3.13 insists on it, and on both keys' names."""


@dataclass(frozen=True)
class Authority:
    """The root certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls) -> "Authority":
        key = ec.generate_private_key(ec.SECP256R1())
        name = _common_name("overlay authority")
        made = _builder(name, name, key.public_key(), _AUTHORITY_DAYS)
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        made = made.add_extension(_SIGNS_CERTIFICATES, critical=True)
        made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        return cls(made.sign(key, SHA256()), key)

    @classmethod
    def read(cls, folder: Path) -> "Authority":
        """Reads it from ``folder``; raises CommandError: exit 66 if it cannot be read, 65 if it is malformed."""
        with refused(Exit.NO_INPUT, folder):
            certificate = (folder / "ca.pem").read_bytes()
            key = (folder / "ca.key").read_bytes()
        try:
            read = load_pem_private_key(key, None)
            authority = x509.load_pem_x509_certificate(certificate)
        except ValueError as error:
            raise CommandError(
                Exit.BAD_DATA, f"{folder}: accepted: ca.pem and ca.key as enrol made them: {error}"
            ) from error
        if not isinstance(read, ec.EllipticCurvePrivateKey) or read.public_key() != authority.public_key():
            raise CommandError(Exit.BAD_DATA, f"{folder}/ca.key: accepted: the key of ca.pem")
        return cls(authority, read)

    def signed(self, name: str, days: float, purpose: Purpose) -> tuple[bytes, bytes]:
        """Signs a certificate; returns it and its key (PEM)."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _common_name(purpose.common_name or name)
        made = _builder(subject, self.certificate.subject, key.public_key(), days)
        made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        made = made.add_extension(signer, critical=False)
        client, server = [ExtendedKeyUsageOID.CLIENT_AUTH], [ExtendedKeyUsageOID.SERVER_AUTH]
        uses = [*(client if purpose.connects else []), *(server if purpose.accepts else [])]
        made = made.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        alternatives = [_address(each) for each in purpose.addresses]
        if purpose.role:
            alternatives.append(x509.UniformResourceIdentifier(f"tributary:handoff/{purpose.role}"))
        if alternatives:
            made = made.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        return made.sign(self.key, SHA256()).public_bytes(Encoding.PEM), _pem(key)


def enrol(authority: Path, name: str, days: float, purpose: Purpose = OVERLAY) -> Path:
    """Writes the folder with the certificate of ``name``, after the authority and root's folder if there are none.

    Raises CommandError: exit 75 if the name has a folder, 66 or 65 if the authority cannot be used, 71 if a folder
    cannot be checked or written; then nothing of it is left.
    """
    with refused(Exit.SYSTEM, authority, "cannot be checked"):
        if not authority.exists():
            _create(authority)
        signer = Authority.read(authority)
        if name != ADMINISTRATOR and not (authority / ADMINISTRATOR).exists():
            _write_identity(authority, ADMINISTRATOR, signer, days, OVERLAY)
        return _write_identity(authority, name, signer, days, purpose)


def _create(folder: Path) -> None:
    made = Authority.new()
    with _new_folder(folder) as new:
        _write(new / "ca.key", _pem(made.key))
        _write(new / "ca.pem", made.certificate.public_bytes(Encoding.PEM))


def _write_identity(authority: Path, name: str, signer: Authority, days: float, purpose: Purpose) -> Path:
    folder = authority / name
    certificate, key = signer.signed(name, days, purpose)
    with _new_folder(folder) as new:
        _write(new / "node.key", key)
        _write(new / "node.pem", certificate)
        _write(new / "ca.pem", signer.certificate.public_bytes(Encoding.PEM))
    return folder


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder that is renamed to ``folder`` at the end, or deleted after an error.

    Raises CommandError: exit 75 if ``folder`` exists, 71 if it cannot be written.
    """
    exists = CommandError(Exit.IN_USE, f"{folder}: exists: accepted: a name without a certificate")
    if folder.exists():
        raise exists
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # mkdtemp gives access to the owner only.
        new = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            yield new
            new.rename(folder)
        except BaseException:
            shutil.rmtree(new)
            raise
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            # Another process was faster.
            raise exists from error
        raise CommandError(Exit.SYSTEM, f"{folder}: cannot be written: {error.strerror}") from error


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: float
) -> x509.CertificateBuilder:
    # Clocks of machines differ a little.
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    made = x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
    return made.not_valid_before(start).not_valid_after(end)


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _address(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
