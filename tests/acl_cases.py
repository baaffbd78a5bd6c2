"""What every API needs, as requests to try: the matrix of tests/security and the comparison with Apache Kafka read the same table.

A case is one request that touches topic `t`, group `g`, transactional id `x` or the cluster, with the permissions that it
needs, all of them, each with the code that tells that it is missing. Where nothing is told but something is left out, `sees` says what an
allowed client finds in the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from barnabas.model.acl import CLUSTER_NAME, Operation, ResourceType
from barnabas.model.errors import ErrorCode
from barnabas.wire import batch
from barnabas.wire.batch import Producer, Record
from barnabas.wire.messages.index import APIS

if TYPE_CHECKING:
    from collections.abc import Callable

TOPIC, GROUP, TXN = "t", "g", "x"
#: How to talk to the broker, and how to log in.
FREE = {17, 18, 36}

_O, _R = Operation, ResourceType
NAMES = {_R.TOPIC: TOPIC, _R.GROUP: GROUP, _R.TRANSACTIONAL_ID: TXN, _R.CLUSTER: CLUSTER_NAME}
CODES = {
    _R.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    _R.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    _R.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    _R.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
Need = tuple[Operation, ResourceType]


@dataclass
class Case:
    """One request, and what it needs."""

    key: int
    version: int
    build: Callable[[Ids], Any]
    needs: list[Need]
    #: Each of these will do instead.
    instead: list[Need] = field(default_factory=list)
    #: The code that tells of a missing permission, where it is not that of its kind.
    code: ErrorCode | None = None
    sees: Callable[[Any], bool] | None = None
    note: str = ""

    def __str__(self) -> str:
        name = f"{APIS[self.key].name}-v{self.version}"
        return f"{name}-{self.note}" if self.note else name

    def code_of(self, need: Need) -> ErrorCode:
        return self.code or CODES[need[1]]


@dataclass
class Ids:
    """Who the topic is."""

    topic_id: bytes


def codes_in(message: Any) -> list[int]:
    """Every error code of an answer, wherever it stands."""
    found = []
    for name in message.__slots__:
        value = getattr(message, name)
        if name.endswith("error_code"):
            found.append(value)
        for one in value if isinstance(value, list) else [value]:
            if hasattr(one, "__slots__") and hasattr(type(one), "__repr__") and name != "records":
                found += codes_in(one) if not isinstance(one, (bytes, memoryview)) else []
    return found


def _make(key: int, what: str = "Request", /, **fields: Any) -> Any:
    module = import_module(f"barnabas.wire.messages.{APIS[key].module}")
    name = APIS[key].name + what if what in ("Request", "Response") else what
    return getattr(module, name)(**fields)


def _records(*, transactional: bool = False) -> bytes:
    records = [Record(0, 1_000, b"k", b"v", ())]
    if not transactional:
        return bytes(batch.build(records))
    producer = Producer(1, 0, 0)
    return bytes(batch.build(records, producer=producer, attributes=batch.TRANSACTIONAL))


def _produce(version: int, *, transactional: bool = False) -> Callable[[Ids], Any]:
    def build(ids: Ids) -> Any:
        data = _make(
            0, "PartitionProduceData", index=0, records=_records(transactional=transactional)
        )
        topic = _make(
            0, "TopicProduceData",
            name=TOPIC if version < 13 else "", topic_id=ids.topic_id if version >= 13 else bytes(16), partition_data=[data],
        )  # fmt: skip
        return _make(
            0, acks=-1, timeout_ms=1000, topic_data=[topic], transactional_id=TXN if transactional else None
        )  # fmt: skip

    return build


def _fetch(version: int, replica_id: int = -1) -> Callable[[Ids], Any]:
    def build(ids: Ids) -> Any:
        one = _make(1, "FetchPartition", partition=0, fetch_offset=0, partition_max_bytes=1000)
        topic = _make(1, "FetchTopic", partitions=[one])
        if version >= 13:
            topic.topic_id = ids.topic_id
        else:
            topic.topic = TOPIC
        return _make(
            1, replica_id=replica_id, max_wait_ms=0, min_bytes=0, max_bytes=1000, topics=[topic]
        )

    return build


def _list_offsets(_ids: Ids) -> Any:
    one = _make(2, "ListOffsetsPartition", partition_index=0, timestamp=-1)
    return _make(
        2, replica_id=-1, topics=[_make(2, "ListOffsetsTopic", name=TOPIC, partitions=[one])]
    )


def _metadata(*, by_id: bool) -> Callable[[Ids], Any]:
    def build(ids: Ids) -> Any:
        topic = _make(3, "MetadataRequestTopic", name=None if by_id else TOPIC)
        if by_id:
            topic.topic_id = ids.topic_id
        return _make(3, topics=[topic], allow_auto_topic_creation=False)

    return build


def _commit(key: int, version: int, ids_since: int, **more: Any) -> Callable[[Ids], Any]:
    def build(ids: Ids) -> Any:
        name = APIS[key].name
        one = _make(key, f"{name}RequestPartition", partition_index=0, committed_offset=1)
        topic = _make(key, f"{name}RequestTopic", partitions=[one])
        if version >= ids_since:
            topic.topic_id = ids.topic_id
        else:
            topic.name = TOPIC
        return _make(key, group_id=GROUP, generation_id_or_member_epoch=-1, topics=[topic], **more)

    return build


def _offset_fetch(ids_since: int, version: int) -> Callable[[Ids], Any]:
    def build(ids: Ids) -> Any:
        if version < 8:
            topic = _make(9, "OffsetFetchRequestTopic", name=TOPIC, partition_indexes=[0])
            return _make(9, group_id=GROUP, topics=[topic])
        topics = _make(9, "OffsetFetchRequestTopics", partition_indexes=[0])
        if version >= ids_since:
            topics.topic_id = ids.topic_id
        else:
            topics.name = TOPIC
        group = _make(9, "OffsetFetchRequestGroup", group_id=GROUP, topics=[topics])
        return _make(9, groups=[group])

    return build


def _find(version: int, key_type: int, key: str) -> Callable[[Ids], Any]:
    if version < 4:
        return lambda _ids: _make(10, key=key, key_type=key_type)
    return lambda _ids: _make(10, key_type=key_type, coordinator_keys=[key])


def _named(
    key: int, struct: str, field_name: str = "topics", **fields: Any
) -> Callable[[Ids], Any]:
    """One topic in a list, and what else such a request has."""
    inner = fields.pop("inner", {})
    return lambda _ids: _make(key, **{field_name: [_make(key, struct, **inner)]}, **fields)


def _configs(key: int, kind: int, name: str) -> Callable[[Ids], Any]:
    def build(_ids: Ids) -> Any:
        if key == 32:
            one = _make(32, "DescribeConfigsResource", resource_type=kind, resource_name=name)
            one.configuration_keys = ["retention.ms"]
        else:
            one = _make(key, "AlterConfigsResource", resource_type=kind, resource_name=name)
            one.configs = []
        more = {} if key == 32 else {"validate_only": True}
        return _make(key, resources=[one], **more)

    return build


def _config_cases(key: int, version: int, operation: Operation) -> list[Case]:
    return [
        Case(key, version, _configs(key, 2, TOPIC), [(operation, _R.TOPIC)], note="topic"),
        Case(key, version, _configs(key, 4, "1"), [(operation, _R.CLUSTER)], note="broker"),
        Case(key, version, _configs(key, 32, GROUP), [(operation, _R.GROUP)], note="group"),
    ]


def _add_partitions(version: int) -> Callable[[Ids], Any]:
    def build(_ids: Ids) -> Any:
        topic = _make(24, "AddPartitionsToTxnTopic", name=TOPIC, partitions=[0])
        if version >= 4:
            one = _make(
                24, "AddPartitionsToTxnTransaction",
                transactional_id=TXN, producer_id=1, producer_epoch=0, topics=[topic],
            )  # fmt: skip
            return _make(24, transactions=[one])
        return _make(
            24, v3_and_below_transactional_id=TXN, v3_and_below_producer_id=1, v3_and_below_topics=[topic]
        )  # fmt: skip

    return build


def _consumer_heartbeat(_ids: Ids) -> Any:
    return _make(
        68, group_id=GROUP, member_id="m" * 22, member_epoch=0, rebalance_timeout_ms=1000,
        subscribed_topic_names=[TOPIC], topic_partitions=[],
    )  # fmt: skip


def _order(key: int, **fields: Any) -> Callable[[Ids], Any]:
    return lambda _ids: _make(key, controller_id=9, controller_epoch=0, broker_epoch=-2, **fields)


_CLUSTER_ACTION = [(_O.CLUSTER_ACTION, _R.CLUSTER)]
_CLUSTER_DESCRIBE = [(_O.DESCRIBE, _R.CLUSTER)]
_CLUSTER_ALTER = [(_O.ALTER, _R.CLUSTER)]
_GROUP_READ = [(_O.READ, _R.GROUP)]
_TXN_WRITE = [(_O.WRITE, _R.TRANSACTIONAL_ID)]

CASES: list[Case] = [
    Case(0, 12, _produce(12), [(_O.WRITE, _R.TOPIC)]),
    Case(0, 13, _produce(13), [(_O.WRITE, _R.TOPIC)]),
    Case(0, 11, _produce(11, transactional=True), [*_TXN_WRITE, (_O.WRITE, _R.TOPIC)], note="transactional"),
    Case(1, 12, _fetch(12), [(_O.READ, _R.TOPIC)]),
    Case(1, 13, _fetch(13), [(_O.READ, _R.TOPIC)]),
    Case(1, 12, _fetch(12, replica_id=2), _CLUSTER_ACTION, code=CODES[_R.TOPIC], note="follower"),
    Case(2, 7, _list_offsets, [(_O.DESCRIBE, _R.TOPIC)]),
    Case(3, 12, _metadata(by_id=False), [(_O.DESCRIBE, _R.TOPIC)]),
    Case(3, 12, _metadata(by_id=True), [(_O.DESCRIBE, _R.TOPIC)], note="id"),
    Case(3, 12, lambda _ids: _make(3, topics=None), [(_O.DESCRIBE, _R.TOPIC)],
         sees=lambda answer: any(one.name == TOPIC for one in answer.topics), note="all"),
    Case(3, 10, lambda _ids: _make(3, topics=[], include_cluster_authorized_operations=True), _CLUSTER_DESCRIBE,
         sees=lambda answer: answer.cluster_authorized_operations != 0, note="operations"),
    Case(4, 7, _order(4), _CLUSTER_ACTION),
    Case(5, 4, _order(5), _CLUSTER_ACTION),
    Case(6, 8, _order(6), _CLUSTER_ACTION),
    Case(7, 3, lambda _ids: _make(7, broker_id=1, broker_epoch=-2), _CLUSTER_ACTION),
    Case(8, 8, _commit(8, 8, 10), [*_GROUP_READ, (_O.READ, _R.TOPIC)]),
    Case(8, 10, _commit(8, 10, 10), [*_GROUP_READ, (_O.READ, _R.TOPIC)]),
    Case(9, 7, _offset_fetch(10, 7), [(_O.DESCRIBE, _R.GROUP), (_O.DESCRIBE, _R.TOPIC)]),
    Case(9, 8, _offset_fetch(10, 8), [(_O.DESCRIBE, _R.GROUP), (_O.DESCRIBE, _R.TOPIC)]),
    Case(9, 10, _offset_fetch(10, 10), [(_O.DESCRIBE, _R.GROUP), (_O.DESCRIBE, _R.TOPIC)]),
    Case(10, 3, _find(3, 0, GROUP), [(_O.DESCRIBE, _R.GROUP)]),
    Case(10, 4, _find(4, 0, GROUP), [(_O.DESCRIBE, _R.GROUP)]),
    Case(10, 4, _find(4, 1, TXN), [(_O.DESCRIBE, _R.TRANSACTIONAL_ID)], note="transaction"),
    Case(11, 9, lambda _ids: _make(
        11, group_id=GROUP, session_timeout_ms=10_000, rebalance_timeout_ms=10_000, protocol_type="consumer",
        protocols=[_make(11, "JoinGroupRequestProtocol", name="range", metadata=b"")],
    ), _GROUP_READ),
    Case(12, 4, lambda _ids: _make(12, group_id=GROUP, member_id="m"), _GROUP_READ),
    Case(13, 5, lambda _ids: _make(
        13, group_id=GROUP, members=[_make(13, "MemberIdentity", member_id="m")]
    ), _GROUP_READ),
    Case(14, 5, lambda _ids: _make(
        14, group_id=GROUP, member_id="m", protocol_type="consumer", protocol_name="range"
    ), _GROUP_READ),
    Case(15, 5, lambda _ids: _make(15, groups=[GROUP]), [(_O.DESCRIBE, _R.GROUP)]),
    Case(16, 4, lambda _ids: _make(16), [(_O.DESCRIBE, _R.GROUP)], instead=_CLUSTER_DESCRIBE,
         sees=lambda answer: any(one.group_id == GROUP for one in answer.groups)),
    Case(19, 4, _named(19, "CreatableTopic", inner={"name": "new-t", "num_partitions": 1, "replication_factor": 1}, timeout_ms=1000),
         [(_O.CREATE, _R.CLUSTER)], code=CODES[_R.TOPIC]),
    Case(20, 5, lambda _ids: _make(20, topic_names=[TOPIC], timeout_ms=1000), [(_O.DELETE, _R.TOPIC)]),
    Case(20, 6, lambda ids: _make(
        20, topics=[_make(20, "DeleteTopicState", name=None, topic_id=ids.topic_id)], timeout_ms=1000
    ), [(_O.DELETE, _R.TOPIC)], note="id"),
    Case(21, 2, _named(21, "DeleteRecordsTopic", timeout_ms=1000, inner={
        "name": TOPIC, "partitions": [_make(21, "DeleteRecordsPartition", partition_index=0, offset=0)],
    }), [(_O.DELETE, _R.TOPIC)]),
    Case(22, 4, lambda _ids: _make(22, transactional_id=None), [(_O.WRITE, _R.TOPIC)],
         instead=[(_O.IDEMPOTENT_WRITE, _R.CLUSTER)], code=CODES[_R.CLUSTER]),
    Case(22, 4, lambda _ids: _make(22, transactional_id=TXN, transaction_timeout_ms=1000), _TXN_WRITE, note="transactional"),
    Case(23, 4, _named(23, "OffsetForLeaderTopic", replica_id=-1, inner={
        "topic": TOPIC, "partitions": [_make(23, "OffsetForLeaderPartition", partition=0, leader_epoch=0)],
    }), [(_O.DESCRIBE, _R.TOPIC)], instead=_CLUSTER_ACTION),
    Case(24, 3, _add_partitions(3), [*_TXN_WRITE, (_O.WRITE, _R.TOPIC)]),
    Case(24, 4, _add_partitions(4), _CLUSTER_ACTION),
    Case(25, 3, lambda _ids: _make(25, transactional_id=TXN, producer_id=1, producer_epoch=0, group_id=GROUP),
         [*_TXN_WRITE, *_GROUP_READ]),
    Case(26, 3, lambda _ids: _make(26, transactional_id=TXN, producer_id=1, producer_epoch=0), _TXN_WRITE),
    Case(27, 1, lambda _ids: _make(27, markers=[_make(27, "WritableTxnMarker", producer_id=1, topics=[
        _make(27, "WritableTxnMarkerTopic", name=TOPIC, partition_indexes=[0])
    ])]), _CLUSTER_ACTION, instead=_CLUSTER_ALTER),
    Case(28, 3, _commit(28, 3, 6, transactional_id=TXN, producer_id=1, producer_epoch=0),
         [*_TXN_WRITE, *_GROUP_READ, (_O.READ, _R.TOPIC)]),
    Case(29, 3, lambda _ids: _make(
        29, resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1,
        resource_name_filter=None, principal_filter=None, host_filter=None,
    ), _CLUSTER_DESCRIBE),
    Case(30, 3, _named(30, "AclCreation", "creations", inner={
        "resource_type": 2, "resource_name": "z", "resource_pattern_type": 3, "principal": "User:z", "host": "*",
        "operation": 3, "permission_type": 3,
    }), _CLUSTER_ALTER),
    Case(31, 3, _named(31, "DeleteAclsFilter", "filters", inner={
        "resource_type_filter": 2, "resource_name_filter": "z", "pattern_type_filter": 3, "principal_filter": None, "host_filter": None,
        "operation": 1, "permission_type": 1,
    }), _CLUSTER_ALTER),
    *_config_cases(32, 4, _O.DESCRIBE_CONFIGS),
    *_config_cases(33, 2, _O.ALTER_CONFIGS),
    Case(34, 2, _named(34, "AlterReplicaLogDir", "dirs", inner={
        "path": "/nowhere", "topics": [_make(34, "AlterReplicaLogDirTopic", name=TOPIC, partitions=[0])],
    }), _CLUSTER_ALTER),
    Case(35, 4, lambda _ids: _make(35, topics=None), _CLUSTER_DESCRIBE),
    Case(37, 3, _named(37, "CreatePartitionsTopic", timeout_ms=1000, inner={"name": TOPIC, "count": 2, "assignments": None}),
         [(_O.ALTER, _R.TOPIC)]),
    Case(42, 2, lambda _ids: _make(42, groups_names=[GROUP]), [(_O.DELETE, _R.GROUP)]),
    Case(43, 2, lambda _ids: _make(43, election_type=0, topic_partitions=[
        _make(43, "TopicPartitions", topic=TOPIC, partitions=[0])
    ], timeout_ms=1000), _CLUSTER_ALTER),
    *_config_cases(44, 1, _O.ALTER_CONFIGS),
    Case(45, 0, lambda _ids: _make(45, timeout_ms=1000, topics=[]), _CLUSTER_ALTER),
    Case(46, 0, lambda _ids: _make(46, timeout_ms=1000, topics=None), _CLUSTER_DESCRIBE),
    Case(47, 0, _named(47, "OffsetDeleteRequestTopic", group_id=GROUP, inner={
        "name": TOPIC, "partitions": [_make(47, "OffsetDeleteRequestPartition", partition_index=0)],
    }), [(_O.DELETE, _R.GROUP), (_O.READ, _R.TOPIC)]),
    Case(48, 1, lambda _ids: _make(48, components=[], strict=False), [(_O.DESCRIBE_CONFIGS, _R.CLUSTER)]),
    Case(49, 1, lambda _ids: _make(49, validate_only=True, entries=[_make(
        49, "RequestEntryData", entity=[_make(49, "EntityData", entity_type="user", entity_name="z")],
        ops=[_make(49, "OpData", key="producer_byte_rate", value=1.0)],
    )]), [(_O.ALTER_CONFIGS, _R.CLUSTER)]),
    # Kafka does not answer at all if all users are asked for and that is denied.
    Case(50, 0, lambda _ids: _make(50, users=[_make(50, "UserName", name="z")]), _CLUSTER_DESCRIBE),
    Case(51, 0, lambda _ids: _make(51, deletions=[_make(51, "ScramCredentialDeletion", name="z", mechanism=1)]), _CLUSTER_ALTER),
    Case(56, 3, lambda _ids: _make(56, broker_id=1, broker_epoch=-2, topics=[]), _CLUSTER_ACTION),
    Case(58, 0, lambda _ids: _make(58, request_data=b"", request_principal=None, client_host_address=b""), _CLUSTER_ACTION),
    Case(60, 0, lambda _ids: _make(60, include_cluster_authorized_operations=True), _CLUSTER_DESCRIBE,
         sees=lambda answer: answer.cluster_authorized_operations != 0),
    Case(61, 0, _named(61, "TopicRequest", inner={"name": TOPIC, "partition_indexes": [0]}), [(_O.READ, _R.TOPIC)]),
    Case(65, 0, lambda _ids: _make(65, transactional_ids=[TXN]), [(_O.DESCRIBE, _R.TRANSACTIONAL_ID)]),
    Case(66, 0, lambda _ids: _make(66), [(_O.DESCRIBE, _R.TRANSACTIONAL_ID)],
         sees=lambda answer: any(one.transactional_id == TXN for one in answer.transaction_states)),
    Case(67, 0, lambda _ids: _make(67, broker_id=1, broker_epoch=-2), _CLUSTER_ACTION),
    Case(68, 0, _consumer_heartbeat, [*_GROUP_READ, (_O.DESCRIBE, _R.TOPIC)]),
    Case(69, 0, lambda _ids: _make(69, group_ids=[GROUP]), [(_O.DESCRIBE, _R.GROUP)]),
    Case(75, 0, _named(75, "TopicRequest", inner={"name": TOPIC}), [(_O.DESCRIBE, _R.TOPIC)]),
    Case(75, 0, lambda _ids: _make(75, topics=[]), [(_O.DESCRIBE, _R.TOPIC)],
         sees=lambda answer: any(one.name == TOPIC for one in answer.topics), note="all"),
]  # fmt: skip
