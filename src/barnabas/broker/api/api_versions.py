"""ApiVersions: which APIs and versions are served, before anything else is agreed on."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from barnabas.broker.call import Call

#: What clients may call themselves (KIP-511).
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_SINCE = 3
#: Clients before this version cannot read a feature whose lowest version is 0 (KAFKA-17011).
_ZERO_SINCE: Final = 4
#: Each end of a transaction raises its producer's epoch (KIP-890). Clients go by the level that is finalized.
_TRANSACTION_VERSION: Final = "transaction.version"
_TRANSACTION_LEVEL: Final = 2
#: There is no way to change a level, so it is always the first state of them.
_FEATURES_EPOCH: Final = 0


def handle(call: Call) -> ApiVersionsResponse:
    """List what is served."""
    request: ApiVersionsRequest = call.request
    if call.version >= _SOFTWARE_SINCE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return refuse(request, ErrorCode.INVALID_REQUEST, None)
    return ApiVersionsResponse(
        api_keys=_listed(call.node.served_versions),
        supported_features=_supported() if call.version >= _ZERO_SINCE else [],
        finalized_features_epoch=_FEATURES_EPOCH,
        finalized_features=[
            FinalizedFeatureKey(
                name=_TRANSACTION_VERSION,
                max_version_level=_TRANSACTION_LEVEL,
                min_version_level=_TRANSACTION_LEVEL,
            )
        ],
    )


@cache
def _listed(served: tuple[tuple[int, int, int], ...]) -> list[ApiVersion]:
    """Name what is served: the first question of every connection, and the list was most of what it cost."""
    return [
        ApiVersion(api_key=key, min_version=lowest, max_version=highest)
        for key, lowest, highest in served
    ]


def _supported() -> list[SupportedFeatureKey]:
    highest = _TRANSACTION_LEVEL
    return [SupportedFeatureKey(name=_TRANSACTION_VERSION, min_version=0, max_version=highest)]


def refuse(
    _request: ApiVersionsRequest, code: ErrorCode, _message: str | None
) -> ApiVersionsResponse:
    """Refuse; the lists are empty."""
    return ApiVersionsResponse(error_code=code)


def unsupported(lowest: int, highest: int) -> ApiVersionsResponse:
    """Tell a client that is newer than this broker which versions of this API to try."""
    own = ApiVersion(api_key=ApiVersionsResponse.API_KEY, min_version=lowest, max_version=highest)
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])
