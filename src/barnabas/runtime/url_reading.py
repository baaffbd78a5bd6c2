"""Reading a small document at an address: the keys that tokens are signed with.

Job: one request, bounded in time and size; blocks, so it runs beside the loop. Must not know: what is read, or which addresses are
allowed (`model/config/security_rules.py` refuses others before). Invariants: https and file only, also after a redirection, of which there
is none: an address that was allowed must not lead to one that was not (CVE-2025-27817).
"""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from http.client import HTTPMessage

SIZE_MAX: Final = 1024 * 1024
TIMEOUT_S: Final = 10


def read_url(url: str) -> bytes:
    """Read what is there; OSError if it cannot be, or is too long."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        with Path(unquote(parts.path)).open("rb") as file:
            return _bounded(file.read(SIZE_MAX + 1), url)
    if parts.scheme != "https":
        raise OSError(f"{url} is neither https:// nor file://")
    opener = urllib.request.build_opener(_NoRedirection, urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=TIMEOUT_S) as answer:
            return _bounded(answer.read(SIZE_MAX + 1), url)
    except urllib.error.URLError as problem:
        raise OSError(f"{url} cannot be read: {problem.reason}") from None


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: Any,  # noqa: ANN401
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        raise urllib.error.URLError("it leads elsewhere, which is not followed")


def _bounded(content: bytes, url: str) -> bytes:
    if len(content) > SIZE_MAX:
        raise OSError(f"{url} has more than {SIZE_MAX} bytes")
    return content
