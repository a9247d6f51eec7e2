"""The cache folder: what takes long to make and can be made again. scripts/setup uses the same."""

import os
from pathlib import Path

CACHE = Path(os.environ.get("TRIBUTARY_CACHE", "/var/cache/tributary"))
