"""Paths of a checkout: its root, and the cache of build results."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
CACHE = Path(os.environ.get("TRIBUTARY_CACHE", "/var/cache/tributary"))
"""scripts/setup uses the same."""
