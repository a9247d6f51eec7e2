import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from overlay.__main__ import main
from overlay.authority import enrol
from overlay.purposes import HANDOFF_FRONT, Purpose, handoff_back_end, handoff_switch, member
from tests.refusals import command_error
from tests.unit.full_disk import full_disk
from tributary.settings.errors import Exit


def read(folder: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / "node.pem").read_bytes())


def common_name(certificate: x509.Certificate) -> str:
    (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(name.value)


def test_a_node_has_a_client_certificate_of_the_authority(tmp_path: Path) -> None:
    folder = enrol(tmp_path / "a", "london", 30)
    certificate = read(folder)
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes()))
    assert common_name(certificate) == "london"
    uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(uses) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert common_name(read(tmp_path / "a/root")) == "root"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_who_goes_by_rfc_5280_to_the_letter_accepts_it_as_well(tmp_path: Path) -> None:
    folder = enrol(tmp_path / "a", "london", 30)
    strictly = ["openssl", "verify", "-x509_strict", "-CAfile", "ca.pem", "node.pem"]
    done = subprocess.run(strictly, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_member_of_etcd_is_no_user_and_has_its_addresses(tmp_path: Path) -> None:
    certificate = read(enrol(tmp_path / "a", "m1", 30, member(["192.0.2.9", "etcd.example"])))
    assert common_name(certificate) == "etcd"
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.9"]
    assert names.get_values_for_type(x509.DNSName) == ["etcd.example"]


@pytest.mark.parametrize(
    ("purpose", "uri", "use", "addresses"),
    [
        (HANDOFF_FRONT, "tributary:handoff/front", ExtendedKeyUsageOID.CLIENT_AUTH, []),
        (handoff_switch(["192.0.2.1"]), "tributary:handoff/switch", ExtendedKeyUsageOID.SERVER_AUTH, ["192.0.2.1"]),
        (handoff_back_end(["192.0.2.2"]), "tributary:handoff/back-end", ExtendedKeyUsageOID.SERVER_AUTH, ["192.0.2.2"]),
    ],
)
def test_who_takes_part_in_a_hand_off_has_one_role(
    purpose: Purpose, uri: str, use: x509.ObjectIdentifier, addresses: list[str], tmp_path: Path
) -> None:
    certificate = read(enrol(tmp_path / "a", "x", 30, purpose))
    assert common_name(certificate) == "x"
    assert list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [use]
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == [uri]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == addresses


def test_only_the_owner_reads_what_was_written(tmp_path: Path) -> None:
    enrol(tmp_path / "a", "london", 30)
    for path in [tmp_path / "a", *(tmp_path / "a").rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_a_name_that_has_a_certificate_or_cannot_be_looked_for_is_refused(tmp_path: Path) -> None:
    before = (enrol(tmp_path / "a", "london", 30) / "node.pem").read_bytes()
    with command_error(Exit.IN_USE):
        enrol(tmp_path / "a", "london", 30)
    assert (tmp_path / "a/london/node.pem").read_bytes() == before
    with command_error(Exit.SYSTEM, "cannot be checked: File name too long"):
        enrol(tmp_path / ("a" * 300), "london", 30)


def test_what_cannot_be_written_whole_is_named_and_in_nobodys_way(tmp_path: Path) -> None:
    authority = tmp_path / "a"
    with command_error(Exit.SYSTEM, begins=f"{authority}: cannot be written: File too large"), full_disk():
        enrol(authority, "london", 30)
    assert [*tmp_path.iterdir()] == []
    enrol(authority, "london", 30)
    before = sorted(authority.rglob("*"))
    with command_error(Exit.SYSTEM, begins=f"{authority}/milan: cannot be written: File too large"), full_disk():
        enrol(authority, "milan", 30)
    assert sorted(authority.rglob("*")) == before
    enrol(authority, "milan", 30)


def test_blanks_around_addresses_are_no_part_of_them(tmp_path: Path) -> None:
    main(["enrol", "m1", "--etcd", "192.0.2.9, etcd-1.example ,2001:db8::1", "--authority", str(tmp_path / "a")])
    names = read(tmp_path / "a/m1").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.9", "2001:db8::1"]
    assert names.get_values_for_type(x509.DNSName) == ["etcd-1.example"]
