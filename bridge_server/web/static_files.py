"""Scripts and stylesheets of pages. Their names hold a digest, so that browsers keep them for long."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from aiohttp import web
from multidict import CIMultiDictProxy

from bridge_server.web.answers import ready_made
from bridge_server.web.whole_answer import WholeAnswer

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
_DIGITS = 12


@dataclass(frozen=True, slots=True)
class _File:
    body: bytes = field(repr=False)
    headers: CIMultiDictProxy[str]


class StaticFiles:
    """The files, read once. `root` is the path below which they are answered."""

    def __init__(self, root: str, files: Iterable[Path]) -> None:
        self._root = root
        self._files: dict[str, _File] = {}
        self.paths: Mapping[str, str] = {
            path.name: self._add(path) for path in files if path.suffix in _TYPES
        }
        """The path of each file, by its name."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The file that the path names."""
        return self.file(request.match_info["name"])

    def file(self, name: str) -> web.Response:
        """The file of this name with its digest. Raises HTTPNotFound."""
        file = self._files.get(name)
        if file is None:
            raise web.HTTPNotFound
        return WholeAnswer(body=file.body, headers=file.headers)

    def _add(self, path: Path) -> str:
        body = path.read_bytes()
        name = f"{path.stem}.{sha256(body).hexdigest()[:_DIGITS]}{path.suffix}"
        headers = {
            "Content-Type": _TYPES[path.suffix],
            "Cache-Control": "public, max-age=31536000, immutable",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        self._files[name] = _File(body, ready_made(headers))
        return f"{self._root}/{name}"
