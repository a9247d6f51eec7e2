"""Whether the kernel's settings are the appliance's: sysctl.d(5) files against /proc/sys."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from doctor.findings import Command, Finding, State, ok
from tributary.kernel import sysctl

_CHECK = "kernel settings"


def parse(text: str) -> dict[str, str]:
    """Keys with dots and their values, from a file such as kernel-config/90-tributary.conf."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith(("#", ";")))
    return {key.strip(): " ".join(value.split()) for key, _, value in pairs}


def examine(places: Sequence[Path], together: bool = False) -> Iterator[Finding]:
    """Compare the kernel with the file that is in one of ``places``.

    Settings that belong ``together`` are not applied on a kernel that lacks one of them.
    """
    for file in places:
        try:
            text = file.read_text()
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            yield Finding(_CHECK, State.UNKNOWN, f"{file} cannot be read: {error}")
            return
        wanted = parse(text)
        found = {key: sysctl.read(key.replace(".", "/")) for key in wanted}
        lacking = [key for key, value in found.items() if value is None]
        if together and lacking:
            yield Finding(_CHECK, State.NOTE, f"this kernel has no {lacking[0]}: {', '.join(wanted)} stay as they are")
        else:
            yield from compare(wanted, found, file)
        return
    where = " or ".join(str(file) for file in places)
    yield Finding(_CHECK, State.WRONG, f"{where} is missing: the package tributary-common has it")


def compare(wanted: Mapping[str, str], found: Mapping[str, str | None], file: Path) -> list[Finding]:
    """A finding for each setting that is not as ``file`` has it, or one for all."""
    findings = [finding for key in wanted if (finding := _one(key, wanted[key], found[key], file))]
    return findings or [ok(_CHECK, f"as in {file}")]


def _one(key: str, wanted: str, found: str | None, file: Path) -> Finding | None:
    if found is None:
        return Finding(_CHECK, State.NOTE, f"this kernel has no {key}")
    if found == wanted:
        return None
    return Finding(_CHECK, State.WRONG, f"{key} is {found}, not {wanted}", _applied(file))


def _applied(file: Path) -> Sequence[Command]:
    # What a package has is applied at every start; a copy would hide an administrator's file, and later versions.
    if file.is_relative_to("/usr"):
        return (_apply(file),)
    kept = Path("/etc/sysctl.d") / file.name
    return ("install", "-m", "644", str(file), str(kept)), _apply(kept)


def _apply(file: Path) -> Command:
    return "sysctl", "-e", "-q", "-p", str(file)
