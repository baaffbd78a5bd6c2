"""The API table: key -> versions served, decoder, handler. `docs/protocol.md` is generated from it.

A key stands here only once it is served. `TABLE` is all that the node consults; ApiVersions tells
clients the same ranges.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.api import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from barnabas.broker.permissions import PERMISSIONS
from barnabas.wire import frame
from barnabas.wire.messages.index import APIS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from barnabas.broker.call import Call
    from barnabas.broker.permissions import Guard
    from barnabas.model.errors import ErrorCode


@dataclass(slots=True)
class Api:
    """How one API is served."""

    key: int
    name: str
    min_version: int
    max_version: int
    #: What ApiVersions says; lower than what is served only where a client needs to see it.
    advertised_min: int
    decode: Callable[[memoryview, int, int], Any]
    handle: Callable[[Call], Any]
    refuse: Callable[[Any, ErrorCode, str | None], Any]
    #: Decides what of a request its sender may ask for, where there are access rules.
    guard: Guard
    #: Its handler is done with the frame's memory when it returns or first waits.
    in_place: bool
    #: Tells of a request of many bytes whether it is decoded in the background: what is in it may be a few large things.
    is_long: Callable[[memoryview, int, int], bool]
    #: Serves such a request. Its frame's memory is its own, and may be written.
    handle_long: Callable[[Call], Any]


def _api(
    key: int,
    module: ModuleType,
    versions: tuple[int, int],
    *,
    advertised_min: int | None = None,
    in_place: bool = False,
) -> Api:
    request, _response = frame.message_types(key)
    return Api(
        key,
        APIS[key].name,
        *versions,
        versions[0] if advertised_min is None else advertised_min,
        request.decode_prefix,
        module.handle,
        module.refuse,
        PERMISSIONS[key],
        in_place,
        getattr(module, "is_long", _is_always_long),
        getattr(module, "handle_long", module.handle),
    )


def _is_always_long(_frame: memoryview, _version: int, _position: int) -> bool:
    return True


TABLE: Final[Mapping[int, Api]] = {
    api.key: api
    for api in (
        # With a minimum of 3, librdkafka 2.0 to 2.6 silently sends gzip and lz4 uncompressed.
        _api(0, produce, (3, 13), advertised_min=0, in_place=True),
        _api(1, fetch, (4, 18), in_place=True),
        _api(2, list_offsets, (1, 11)),
        _api(3, metadata, (0, 13)),
        _api(8, offset_commit, (2, 10), in_place=True),
        _api(9, offset_fetch, (1, 10)),
        _api(10, find_coordinator, (0, 6)),
        _api(11, join_group, (0, 9)),
        _api(12, heartbeat, (0, 4), in_place=True),
        _api(13, leave_group, (0, 5)),
        _api(14, sync_group, (0, 5)),
        _api(15, describe_groups, (0, 6)),
        _api(16, list_groups, (0, 5)),
        _api(17, sasl_handshake, (0, 1)),
        _api(18, api_versions, (0, 5)),
        _api(19, create_topics, (2, 7)),
        _api(20, delete_topics, (1, 6)),
        _api(21, delete_records, (0, 2)),
        _api(22, init_producer_id, (0, 5)),
        _api(23, offset_for_leader_epoch, (2, 4)),
        _api(24, add_partitions_to_txn, (0, 5)),
        _api(25, add_offsets_to_txn, (0, 4)),
        _api(26, end_txn, (0, 5)),
        _api(27, write_txn_markers, (1, 2)),
        _api(28, txn_offset_commit, (0, 6)),
        _api(29, describe_acls, (1, 3)),
        _api(30, create_acls, (1, 3)),
        _api(31, delete_acls, (1, 3)),
        _api(32, describe_configs, (1, 4)),
        _api(33, alter_configs, (0, 2)),
        _api(34, alter_replica_log_dirs, (1, 2)),
        _api(35, describe_log_dirs, (1, 5)),
        _api(36, sasl_authenticate, (0, 2)),
        _api(37, create_partitions, (0, 3)),
        _api(42, delete_groups, (0, 3)),
        _api(44, incremental_alter_configs, (0, 1)),
        _api(47, offset_delete, (0, 0)),
        _api(48, describe_client_quotas, (0, 1)),
        _api(49, alter_client_quotas, (0, 1)),
        _api(50, describe_user_scram_credentials, (0, 0)),
        _api(51, alter_user_scram_credentials, (0, 0)),
        _api(60, describe_cluster, (0, 2)),
        _api(61, describe_producers, (0, 0)),
        _api(65, describe_transactions, (0, 0)),
        _api(66, list_transactions, (0, 2)),
        _api(68, consumer_group_heartbeat, (0, 1)),
        _api(69, consumer_group_describe, (0, 1)),
        _api(75, describe_topic_partitions, (0, 0)),
    )
}


def unsupported_api_versions(call: Call) -> list[Any]:
    """Answer an ApiVersions of a version nobody knows: version 0's layout and only its own range (KIP-511)."""
    api = TABLE[frame.API_VERSIONS]
    call.version = 0
    return call.encode(api_versions.unsupported(api.min_version, api.max_version))


def cluster_table() -> dict[int, Api]:
    """Return what a member of a cluster serves more, or otherwise: requests of brokers to each other, and what the controller decides."""
    # Imported here: a lone broker does without.
    from barnabas.broker.api import (
        allocate_producer_ids,
        alter_partition,
        alter_partition_reassignments,
        controlled_shutdown,
        elect_leaders,
        envelope,
        leader_and_isr,
        list_partition_reassignments,
        stop_replica,
        update_metadata,
    )
    from barnabas.broker.forwarding import served_by_controller

    apis = (
        _api(4, leader_and_isr, (5, 7)),
        _api(5, stop_replica, (3, 4)),
        _api(6, update_metadata, (7, 8)),
        _api(7, controlled_shutdown, (2, 3)),
        _api(43, elect_leaders, (0, 2)),
        _api(45, alter_partition_reassignments, (0, 1)),
        _api(46, list_partition_reassignments, (0, 0)),
        _api(56, alter_partition, (2, 3)),
        _api(58, envelope, (0, 0)),
        _api(67, allocate_producer_ids, (0, 0)),
    )
    served = {api.key: api for api in apis}
    for key in envelope.FORWARDED:
        api = served.get(key) or TABLE[key]
        served[key] = replace(
            api,
            handle=served_by_controller(api.handle),
            handle_long=served_by_controller(api.handle_long),
        )
    return served


def advertised(table: Mapping[int, Api] = TABLE) -> tuple[tuple[int, int, int], ...]:
    """Return (key, lowest, highest version) of everything served."""
    return tuple((api.key, api.advertised_min, api.max_version) for api in table.values())
