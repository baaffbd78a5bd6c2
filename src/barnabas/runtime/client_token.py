"""Bearer tokens for OAUTHBEARER, from where the settings say.

Job: ask the token endpoint with the client's credentials (RFC 6749, 4.4), keep the token while it lives. Must not know SASL.

Invariants: only http and https are asked, never a file; an answer is bounded; no secret is in an error.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Final

from barnabas.client.errors import AuthenticationFailed

if TYPE_CHECKING:
    from barnabas.client.settings import ClientSettings

_ANSWER_BYTES_MAX: Final = 256 * 1024
#: A token is replaced when this part of its life is over.
_LIFE_USED: Final = 0.8


class TokenSource:
    """Gives a token when called."""

    def __init__(self, settings: ClientSettings) -> None:
        """Ask nothing yet."""
        self._settings = settings
        self._token = ""
        self._good_until_s = 0.0

    def __call__(self) -> str:
        """Return a token that is good for now; AuthenticationFailed if there is none to be had."""
        if self._settings.token_provider is not None:
            return self._settings.token_provider()
        if time.monotonic() >= self._good_until_s:
            self._token, life_s = self._ask()
            self._good_until_s = time.monotonic() + life_s * _LIFE_USED
        return self._token

    def _ask(self) -> tuple[str, float]:
        url = self._settings.oauth_endpoint
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise AuthenticationFailed(
                f"sasl.oauthbearer.token.endpoint.url={url!r}: only http and https are asked for tokens"
            )
        timeout_s = self._settings.connect_timeout_ms / 1000
        try:
            with urllib.request.urlopen(self._request(url), timeout=timeout_s) as answer:  # noqa: S310
                content = json.loads(answer.read(_ANSWER_BYTES_MAX))
            return str(content["access_token"]), float(content.get("expires_in", 60))
        except (OSError, ValueError, KeyError, TypeError) as problem:
            if isinstance(problem, urllib.error.HTTPError):
                problem.close()
            why = getattr(problem, "reason", None) or type(problem).__name__
            raise AuthenticationFailed(f"no token from {url}: {why}") from None

    def _request(self, url: str) -> urllib.request.Request:
        settings = self._settings
        form = {"grant_type": "client_credentials"}
        if settings.oauth_scope:
            form["scope"] = settings.oauth_scope
        pair = f"{settings.oauth_client_id}:{settings.oauth_client_secret}"
        head = {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        return urllib.request.Request(url, urllib.parse.urlencode(form).encode(), head)  # noqa: S310
