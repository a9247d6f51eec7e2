"""Settings for other parts, as TOML. Pure."""

from collections.abc import Mapping

import tomli_w

_HEAD = "# Written from tributary.toml on the boot partition, and written anew when that changes.\n\n"


def document(settings: Mapping[str, object]) -> str:
    """A file with ``settings``; each Mapping in them is a table, each list of them an array of tables."""
    return _HEAD + tomli_w.dumps(settings)
