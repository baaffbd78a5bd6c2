"""ApiVersions: which APIs and versions are served, before anything else is agreed on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from barnabas.broker.call import Call

#: What clients may call themselves (KIP-511).
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_SINCE = 3


def handle(call: Call) -> ApiVersionsResponse:
    """List what is served."""
    request: ApiVersionsRequest = call.request
    if call.version >= _SOFTWARE_SINCE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return refuse(request, ErrorCode.INVALID_REQUEST, None)
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=lowest, max_version=highest)
            for key, lowest, highest in call.node.served_versions()
        ]
    )


def refuse(
    _request: ApiVersionsRequest, code: ErrorCode, _message: str | None
) -> ApiVersionsResponse:
    """Refuse; the lists are empty."""
    return ApiVersionsResponse(error_code=code)


def unsupported(lowest: int, highest: int) -> ApiVersionsResponse:
    """Tell a client that is newer than this broker which versions of this API to try."""
    own = ApiVersion(api_key=ApiVersionsResponse.API_KEY, min_version=lowest, max_version=highest)
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])
