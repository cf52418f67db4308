"""The page's own paths on the HTTP port."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

import service
from service.http.exchange import Page, Pages, Request
from service.http.same_origin import is_own_host
from service.repository import Repository
from service.status_page import overview

TRIAL_PATH: Final = "/status/trial"

_ASSETS: Final = Path(__file__).parent / "assets"
_FILES: Final = {
    "/": ("status.html", "text/html; charset=utf-8"),
    "/status/status.css": ("status.css", "text/css; charset=utf-8"),
    "/status/status.js": ("status.js", "text/javascript; charset=utf-8"),
}
_DATA_PATH: Final = "/status/data"
# Nothing from elsewhere, nothing written into the page, no other site around it.
_CONTENT_SECURITY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = (
    ("content-security-policy", _CONTENT_SECURITY),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
)


@dataclass(frozen=True, slots=True)
class StatusPages:
    """Answers the page's own paths, and leaves all others to the pages behind.

    Attributes:
        behind: answers the other paths.
        repository: what is told of.
        is_ready: whether the server takes requests.
        has_trial: whether there is a form to try signatures.
    """

    behind: Pages
    repository: Repository
    is_ready: Callable[[], bool]
    has_trial: bool

    def __call__(self, request: Request) -> Page:
        """Answer a request."""
        path = request.target.partition("?")[0]
        if path not in _FILES and path != _DATA_PATH:
            return self.behind(request)
        if not is_own_host(request.host):
            return Page(b"Open this page by the server's address, or as localhost.\n", status=HTTPStatus.FORBIDDEN)
        if path == _DATA_PATH:
            return Page(json.dumps(self._data()).encode(), "application/json", headers=_HEADERS)
        name, content_type = _FILES[path]
        return Page((_ASSETS / name).read_bytes(), content_type, headers=_HEADERS)

    def _data(self) -> Mapping[str, object]:
        return {
            "server": service.__version__,
            "ready": self.is_ready(),
            "has_trial": self.has_trial,
            "models": overview.models(self.repository),
            "signatures": overview.signatures(self.repository),
        }
