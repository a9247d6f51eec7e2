"""The page's own files, in memory: their names are all that can be asked for."""

import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

FOLDER = Path(__file__).parent / "static"
_TYPES = {".html", ".css", ".js", ".svg", ".png"}


@dataclass(frozen=True)
class StaticFile:
    """A file, its media type and its entity tag."""

    content: bytes
    kind: str
    tag: str

    def response(self, request: Request) -> Response:
        """The file, or that the browser has it already."""
        headers = {"ETag": self.tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        return Response(self.content, media_type=self.kind, headers=headers)


def load() -> Mapping[str, StaticFile]:
    """All files by their path."""
    found = (path for path in FOLDER.rglob("*") if path.suffix in _TYPES)
    return {path.relative_to(FOLDER).as_posix(): _read(path) for path in found}


def _read(path: Path) -> StaticFile:
    content = path.read_bytes()
    tag = hashlib.sha256(content).hexdigest()[:16]
    return StaticFile(content, mimetypes.guess_type(path.name)[0] or "application/octet-stream", f'"{tag}"')
