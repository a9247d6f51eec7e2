"""Programs of Debian's that are run for what they do to the machine."""

import subprocess
from collections.abc import Sequence

from tributary.settings.failure import Exit, Failure

_PACKAGES = {"ip": "iproute2", "nft": "nftables", "ss": "iproute2", "tc": "iproute2", "wg": "wireguard-tools"}


def run(command: Sequence[str], given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``command`` with ``given`` on its input, whatever it ends with. Raises Failure, exit 69, without it."""
    try:
        return subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        package = _PACKAGES.get(command[0], command[0])
        raise Failure(Exit.UNAVAILABLE, f"{command[0]} is not here: install {package}") from error
