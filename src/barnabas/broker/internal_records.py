"""The records of Kafka's own topics as plain values: groups and offsets, transactions, share groups, cluster metadata.

Job: key and value bytes -> names and values, for people who look into a log. Must not know what the records mean to a
coordinator (`group_records.py` does, for those that our groups use). What is not known, or malformed, gives None: the bytes can
still be shown.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from barnabas.model.ids import TopicId, topic_id_text
from barnabas.wire.primitives import Struct, WireError, read_uvarint

if TYPE_CHECKING:
    from barnabas.wire.primitives import Message

_RECORDS: Final = "barnabas.wire.messages.records"
_METADATA: Final = "barnabas.wire.messages.metadata_records"

GROUP_MODULES: Final = {
    0: "legacy_offset_commit",
    1: "offset_commit",
    2: "group_metadata",
    3: "consumer_group_metadata",
    4: "consumer_group_partition_metadata",
    5: "consumer_group_member_metadata",
    6: "consumer_group_target_assignment_metadata",
    7: "consumer_group_target_assignment_member",
    8: "consumer_group_current_member_assignment",
    10: "share_group_member_metadata",
    11: "share_group_metadata",
    12: "share_group_target_assignment_metadata",
    13: "share_group_target_assignment_member",
    14: "share_group_current_member_assignment",
    15: "share_group_state_partition_metadata",
    16: "consumer_group_regular_expression",
    17: "streams_group_metadata",
    19: "streams_group_member_metadata",
    20: "streams_group_target_assignment_metadata",
    21: "streams_group_target_assignment_member",
    22: "streams_group_current_member_assignment",
    23: "streams_group_topology",
}
#: Topic -> number at the start of a key -> module with the classes of key and value.
_TOPICS: Final = {
    "__consumer_offsets": GROUP_MODULES,
    "__transaction_state": {0: "transaction_log"},
    "__share_group_state": {0: "share_snapshot", 1: "share_update"},
}
_METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_MODULES: Final = {
    0: "register_broker_record",
    1: "unregister_broker_record",
    2: "topic_record",
    3: "partition_record",
    4: "config_record",
    5: "partition_change_record",
    7: "fence_broker_record",
    8: "unfence_broker_record",
    9: "remove_topic_record",
    10: "delegation_token_record",
    11: "user_scram_credential_record",
    12: "feature_level_record",
    14: "client_quota_record",
    15: "producer_ids_record",
    17: "broker_registration_change_record",
    18: "access_control_entry_record",
    19: "remove_access_control_entry_record",
    20: "no_op_record",
    21: "zk_migration_state_record",
    22: "remove_user_scram_credential_record",
    23: "begin_transaction_record",
    24: "end_transaction_record",
    25: "abort_transaction_record",
    26: "remove_delegation_token_record",
    27: "register_controller_record",
    28: "clear_elr_record",
}
#: Versions of the frame around a metadata record: how KRaft writes them.
_FRAME_VERSIONS: Final = (0, 1)


def describe(topic: str, key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
    """Say what a record of one of Kafka's own topics holds; None if that cannot be told."""
    try:
        if topic == _METADATA_TOPIC:
            message = None if value is None else decode_metadata(value)
            return None if message is None else {"type": type(message).__name__, **plain(message)}
        return _describe_pair(_TOPICS.get(topic, {}), key, value)
    except WireError:
        return None


def _describe_pair(
    modules: dict[int, str], key: bytes | None, value: bytes | None
) -> dict[str, Any] | None:
    number = _number(key)
    if key is None or number not in modules:
        return None
    module = modules[number]
    key_type, value_type = _class(_RECORDS, module, "Key"), _class(_RECORDS, module, "Value")
    described = {
        "type": key_type.__name__.removesuffix("Key"),
        "key": plain(key_type.decode(key, 0, 2)),
        "value": None,
    }
    version = _number(value)
    if value is not None:
        if version not in value_type.DECODERS:
            return None
        described["value"] = plain(value_type.decode(value, version, 2))
    return described


def _number(data: bytes | None) -> int | None:
    return None if data is None or len(data) < 2 else int.from_bytes(data[:2], "big", signed=True)


def decode_metadata(value: bytes) -> Message | None:
    """Read one record of KRaft's metadata log; None for kinds and versions that are not known."""
    frame, position = read_uvarint(value, 0)
    number, position = read_uvarint(value, position)
    version, position = read_uvarint(value, position)
    if frame not in _FRAME_VERSIONS or number not in METADATA_MODULES:
        return None
    record_type = _class(_METADATA, METADATA_MODULES[number])
    if version not in record_type.DECODERS:
        return None
    return record_type.decode(value, version, position)


def _class(package: str, module: str, suffix: str = "") -> type[Message]:
    """Return the message of a generated module, which is called like it."""
    name = "".join(part.capitalize() for part in module.split("_")) + suffix
    found: type[Message] = getattr(import_module(f"{package}.{module}"), name)
    return found


def plain(value: Any) -> Any:  # noqa: ANN401 - a JSON-like value
    """Turn a message into dicts and lists; ids as text."""
    if isinstance(value, Struct):
        names = [name for name in value.__slots__ if name != "unknown_tagged_fields"]
        return {name: _named(name, getattr(value, name)) for name in names if hasattr(value, name)}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    return value


def _named(name: str, value: Any) -> Any:  # noqa: ANN401 - as above
    if name.endswith("_id") and isinstance(value, bytes) and len(value) == 16:
        return topic_id_text(TopicId(value))
    return plain(value)
