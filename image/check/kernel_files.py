"""Is this a kernel, is this an initramfs? By the bytes at their beginnings. Pure."""

import gzip
import struct
import zlib

# Documentation/arch/arm64/booting.rst: the magic of an Image; arch/x86/boot: that of the setup header, and where it is.
_ARM64_MAGIC, _ARM64_AT = b"ARM\x64", 0x38
_X86_MAGIC, _X86_AT = b"HdrS", 0x202
_GZIP = b"\x1f\x8b"
# An initramfs begins with a cpio archive, plain (microcode is in one before the rest) or packed.
_ARCHIVES = {b"070701": "cpio", b"\x28\xb5\x2f\xfd": "zstd", _GZIP: "gzip", b"\xfd7zXZ": "xz"}


def kernel_flaw(data: bytes, architecture: str) -> str | None:
    """What is wrong with the beginning of a kernel for Debian's ``architecture``; None if nothing is."""
    if architecture == "amd64":
        return None if data[_X86_AT : _X86_AT + 4] == _X86_MAGIC else "no kernel for x86"
    if data.startswith(_GZIP):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, struct.error, zlib.error):
            return "damaged: it is packed, and cannot be unpacked"
    return None if data[_ARM64_AT : _ARM64_AT + 4] == _ARM64_MAGIC else "no kernel for arm64"


def initramfs_flaw(data: bytes) -> str | None:
    """The same of an initramfs."""
    return None if any(data.startswith(magic) for magic in _ARCHIVES) else "no initramfs"
