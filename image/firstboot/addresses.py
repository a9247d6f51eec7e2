"""This machine's addresses, of ip(8)."""

import json
import subprocess


def own() -> tuple[str, ...]:
    """Those of global scope, without temporary ones (RFC 8981); none if ip(8) is not here."""
    try:
        shown = subprocess.run(
            ["ip", "-json", "address", "show", "up", "scope", "global"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ()
    found = [each for link in json.loads(shown.stdout or "[]") for each in link.get("addr_info", [])]
    return tuple(each["local"] for each in found if "local" in each and not each.get("temporary"))
