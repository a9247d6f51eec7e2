"""A disk's root as a signed bundle of RAUC, for boxes that run an earlier version of the same image."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from image.make.boards import MIB
from image.make.command import Runner
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import text_of

ENDING = ".raucb"

_ROOT = "root.ext4"
# Zeros take nothing, and the packing as long as that of the image.
_PACKING = "-comp zstd -Xcompression-level 12 -quiet -no-progress"


@dataclass(frozen=True)
class Signing:
    """Who signs: an X.509 certificate in a PEM file, and its key, in another or by a PKCS#11 URL."""

    certificate: Path
    key: str


def certificate(path: Path) -> str:
    """The text of the PEM file ``path``; raises CommandError (64, 66)."""
    text = text_of(path)
    if "-----BEGIN CERTIFICATE-----" not in text or "PRIVATE KEY-----" in text:
        raise CommandError(Exit.USAGE, f"--certificate {path}: accepted: certificates in PEM, and no key")
    return text


def manifest(compatible: str, version: str) -> str:
    """What RAUC compares and writes (RAUC's reference, "Manifest"); ``version`` as dpkg orders them."""
    return f"""\
[update]
compatible={compatible}
version={version}

[bundle]
format=verity

[image.root]
filename={_ROOT}
"""


def make(disk: Path, start: int, size: int, text: str, signing: Signing, target: Path, runner: Runner) -> None:
    """The ``size`` bytes from ``start`` on of the file ``disk`` as the bundle ``target`` with the manifest ``text``.

    Raises CommandError (69, 71).
    """
    with TemporaryDirectory(dir=target.parent, prefix=f"{target.stem}.") as folder:
        content = Path(folder) / "content"
        content.mkdir()
        (content / "manifest.raucm").write_text(text)
        copying = [f"skip={start // MIB}", f"count={size // MIB}", f"bs={MIB}", "conv=sparse"]
        runner.run(["dd", f"if={disk}", f"of={content / _ROOT}", *copying])
        signed = [f"--cert={signing.certificate}", f"--key={signing.key}", f"--keyring={signing.certificate}"]
        runner.run(["rauc", *signed, f"--mksquashfs-args={_PACKING}", "bundle", str(content), str(target)])
