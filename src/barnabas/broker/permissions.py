"""What each API needs of who calls it, in one table: Kafka's KafkaApis, 4.3 and 3.9, for what only that has.

Job: before a handler sees a request, refuse it as a whole (KafkaError) or take out of it what its sender may not touch; the answer to
that is kept beside the call and joins the handler's. Must not know: rules and principals (`gate.py`).

What a topic's name does not say is whether it exists: a topic that may not be described is refused before anybody looks. By id it
is different, as in Kafka: who knows an id knows that the topic exists.

A few handlers ask by themselves, because what they need shows only in their work; here is then what comes before that, or
`_asks_itself`: Fetch (partitions of a session), Metadata and DescribeTopicPartitions (all topics, those that would be created), OffsetFetch
and OffsetDelete (topics of groups), AddPartitionsToTxn (topics), and those that filter what they list.

Invariants: every API has a line; `dispatch.py` cannot be loaded otherwise. `tests/security/test_matrix.py` tries each with and without.
"""

from __future__ import annotations

from functools import reduce
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker import transactional_produce
from barnabas.broker.call import join
from barnabas.broker.config_changes import ResourceType as ConfigType
from barnabas.broker.gate import denial
from barnabas.model.acl import CLUSTER_NAME, Operation, ResourceType
from barnabas.model.cluster import ANY_REPLICA
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.broker.call import Call
    from barnabas.broker.gate import Gate, Refuse

    #: Raises KafkaError to refuse everything, or returns the answer to what it took out of the request.
    Guard = Callable[[Gate, Call, Refuse], Any]

_O, _R = Operation, ResourceType
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
#: Versions from which a request names topics by id.
_PRODUCE_IDS_SINCE: Final = 13
_OFFSET_COMMIT_IDS_SINCE: Final = 10
_TXN_OFFSET_COMMIT_IDS_SINCE: Final = 6
#: From this version on AddPartitionsToTxn is for brokers.
_ADD_PARTITIONS_OF_BROKERS_SINCE: Final = 4
_FIND_MANY_SINCE: Final = 4
_FETCH_MANY_SINCE: Final = 8


def _free(_gate: Gate, _call: Call, _refuse: Refuse) -> None:
    """Everybody may: how to talk to this broker, and how to log in."""


def _asks_itself(_gate: Gate, _call: Call, _refuse: Refuse) -> None:
    """Its handler asks, see the module."""


def _cluster(*operations: Operation) -> Guard:
    """Need one of these on the cluster; of several, what is told is that the last was denied."""

    def guard(gate: Gate, call: Call, _refuse: Refuse) -> None:
        *others, last = operations
        if any(gate.allows_cluster(call, one, quietly=True) for one in others):
            return
        gate.demand(call, last, _R.CLUSTER, CLUSTER_NAME)

    return guard


def _one(operation: Operation, kind: ResourceType, field: str) -> Guard:
    """Need it on the one thing that a field names."""
    name = attrgetter(field)

    def guard(gate: Gate, call: Call, _refuse: Refuse) -> None:
        gate.demand(call, operation, kind, name(call.request))

    return guard


def _each(operation: Operation, kind: ResourceType, field: str, name: str | None = None) -> Guard:
    """Need it on everything in a list, of names or of things with a name."""
    name_of: Callable[[Any], str] = str if name is None else attrgetter(name)
    code = denial(kind).code

    def guard(gate: Gate, call: Call, refuse: Refuse) -> Any:  # noqa: ANN401
        return gate.narrow(
            call, refuse, field, code, lambda one: gate.allows(call, operation, kind, name_of(one))
        )

    return guard


def _each_topic(operation: Operation, field: str, *, ids_since: int) -> Guard:
    """Need it on every topic in a list, by name or, from a version on, by id; an id that no topic has is left to the handler."""

    def guard(gate: Gate, call: Call, refuse: Refuse) -> Any:  # noqa: ANN401
        by_id = call.node.topics.by_id if call.version >= ids_since else None

        def is_allowed(one: Any) -> bool:  # noqa: ANN401
            name = one.name
            if by_id is not None:
                topic = by_id.get(bytes(one.topic_id))
                if topic is None:
                    return True
                name = topic.name
            return gate.allows(call, operation, _R.TOPIC, name)

        return gate.narrow(call, refuse, field, _TOPIC_DENIED, is_allowed)

    return guard


def _all_of(*guards: Guard) -> Guard:
    """Need one thing after the other; only the last takes something out."""

    def guard(gate: Gate, call: Call, refuse: Refuse) -> Any:  # noqa: ANN401
        answer = None
        for one in guards:
            assert answer is None, "what one takes out the next does not know"
            answer = one(gate, call, refuse)
        return answer

    return guard


_GROUP_READ: Final = _one(_O.READ, _R.GROUP, "group_id")
_TRANSACTION_WRITE: Final = _one(_O.WRITE, _R.TRANSACTIONAL_ID, "transactional_id")


def _produce(gate: Gate, call: Call, refuse: Refuse) -> Any:  # noqa: ANN401
    """Need the transactional id for records of a transaction, and every topic; an id without a right to it is no id at all."""
    request = call.request
    if transactional_produce.has_transactional(request):
        name = request.transactional_id
        if name is None or not gate.allows(call, _O.WRITE, _R.TRANSACTIONAL_ID, name):
            raise denial(_R.TRANSACTIONAL_ID)
    return _PRODUCE_TOPICS(gate, call, refuse)


_PRODUCE_TOPICS: Final = _each_topic(_O.WRITE, "topic_data", ids_since=_PRODUCE_IDS_SINCE)


def _list_offsets(gate: Gate, call: Call, refuse: Refuse) -> Any:  # noqa: ANN401
    """Need the topics; a broker may read all of them anyway, and asks where they begin, or how far another's logs go."""
    is_broker = call.request.replica_id >= 0 or call.request.replica_id == ANY_REPLICA
    if is_broker and gate.allows_cluster(call, _O.CLUSTER_ACTION, quietly=True):
        return None
    return _each(_O.DESCRIBE, _R.TOPIC, "topics", "name")(gate, call, refuse)


def _find_coordinator(gate: Gate, call: Call, refuse: Refuse) -> Any:  # noqa: ANN401
    kinds = (_R.GROUP, _R.TRANSACTIONAL_ID)
    key_type = call.request.key_type
    if not 0 <= key_type < len(kinds):
        # Share groups' state is the brokers' own; of other kinds there is nothing to find.
        return gate.demand(call, _O.CLUSTER_ACTION, _R.CLUSTER, CLUSTER_NAME)
    kind = kinds[key_type]
    if call.version < _FIND_MANY_SINCE:
        return gate.demand(call, _O.DESCRIBE, kind, call.request.key)
    return _each(_O.DESCRIBE, kind, "coordinator_keys")(gate, call, refuse)


def _offset_fetch(gate: Gate, call: Call, refuse: Refuse) -> Any:  # noqa: ANN401
    """Need the groups; the handler asks for the topics."""
    if call.version < _FETCH_MANY_SINCE:
        return gate.demand(call, _O.DESCRIBE, _R.GROUP, call.request.group_id)
    return _each(_O.DESCRIBE, _R.GROUP, "groups", "group_id")(gate, call, refuse)


def _create_topics(gate: Gate, call: Call, refuse: Refuse) -> Any:  # noqa: ANN401
    if gate.allows_cluster(call, _O.CREATE, quietly=True):
        return None
    return _each(_O.CREATE, _R.TOPIC, "topics", "name")(gate, call, refuse)


def _delete_topics(gate: Gate, call: Call, refuse: Refuse) -> Any:  # noqa: ANN401
    by_id = call.node.topics.by_id

    def is_allowed(one: Any) -> bool:  # noqa: ANN401
        name = one.name
        if name is None:
            topic = by_id.get(bytes(one.topic_id))
            if topic is None:
                return True
            name = topic.name
        return gate.allows(call, _O.DELETE, _R.TOPIC, name)

    return _join(
        _each(_O.DELETE, _R.TOPIC, "topic_names")(gate, call, refuse),
        gate.narrow(call, refuse, "topics", _TOPIC_DENIED, is_allowed),
    )


def _init_producer_id(gate: Gate, call: Call, refuse: Refuse) -> None:
    """Need the transactional id, or the right to write to some topic: whoever may write may do so idempotently (KIP-679)."""
    if call.request.transactional_id is not None:
        _TRANSACTION_WRITE(gate, call, refuse)
    elif not (
        gate.allows_cluster(call, _O.IDEMPOTENT_WRITE, quietly=True)
        or gate.allows_any(call, _O.WRITE, _R.TOPIC)
    ):
        raise denial(_R.CLUSTER)


def _offset_for_leader_epoch(gate: Gate, call: Call, refuse: Refuse) -> Any:  # noqa: ANN401
    if gate.allows_cluster(call, _O.CLUSTER_ACTION, quietly=True):
        return None
    return _each(_O.DESCRIBE, _R.TOPIC, "topics", "topic")(gate, call, refuse)


def _add_partitions_to_txn(gate: Gate, call: Call, _refuse: Refuse) -> None:
    """Clients need the transactional id, and the topics, for which the handler asks: with one that is denied none is added."""
    if call.version >= _ADD_PARTITIONS_OF_BROKERS_SINCE:
        gate.demand(call, _O.CLUSTER_ACTION, _R.CLUSTER, CLUSTER_NAME)
    else:
        name = call.request.v3_and_below_transactional_id
        gate.demand(call, _O.WRITE, _R.TRANSACTIONAL_ID, name)


def _configs(operation: Operation) -> Guard:
    """Need it on the topic or group whose settings these are, or on the cluster for a broker's."""

    def guard(gate: Gate, call: Call, refuse: Refuse) -> Any:  # noqa: ANN401
        def narrow(kind: ResourceType) -> Any:  # noqa: ANN401
            def is_allowed(one: Any) -> bool:  # noqa: ANN401
                if _CONFIG_KINDS.get(one.resource_type) is not kind:
                    return True
                name = CLUSTER_NAME if kind is _R.CLUSTER else one.resource_name
                return gate.allows(call, operation, kind, name)

            return gate.narrow(call, refuse, "resources", denial(kind).code, is_allowed)

        return _join(narrow(_R.TOPIC), narrow(_R.GROUP), narrow(_R.CLUSTER))

    return guard


_CONFIG_KINDS: Final = {
    ConfigType.TOPIC: _R.TOPIC,
    ConfigType.GROUP: _R.GROUP,
    ConfigType.BROKER: _R.CLUSTER,
    ConfigType.BROKER_LOGGER: _R.CLUSTER,
    ConfigType.CLIENT_METRICS: _R.CLUSTER,
}


def _consumer_group_heartbeat(gate: Gate, call: Call, refuse: Refuse) -> None:
    """Need the group, and every topic that a member subscribes to by name."""
    _GROUP_READ(gate, call, refuse)
    for name in call.request.subscribed_topic_names or ():
        gate.demand(call, _O.DESCRIBE, _R.TOPIC, name)


def _join(*answers: Any) -> Any:  # noqa: ANN401
    some = [answer for answer in answers if answer is not None]
    return reduce(join, some) if some else None


PERMISSIONS: Final[Mapping[int, Guard]] = {
    0: _produce,
    1: _asks_itself,
    2: _list_offsets,
    3: _asks_itself,
    4: _cluster(_O.CLUSTER_ACTION),
    5: _cluster(_O.CLUSTER_ACTION),
    6: _cluster(_O.CLUSTER_ACTION),
    7: _cluster(_O.CLUSTER_ACTION),
    8: _all_of(_GROUP_READ, _each_topic(_O.READ, "topics", ids_since=_OFFSET_COMMIT_IDS_SINCE)),
    9: _offset_fetch,
    10: _find_coordinator,
    11: _GROUP_READ,
    12: _GROUP_READ,
    13: _GROUP_READ,
    14: _GROUP_READ,
    15: _each(_O.DESCRIBE, _R.GROUP, "groups"),
    16: _asks_itself,
    17: _free,
    18: _free,
    19: _create_topics,
    20: _delete_topics,
    21: _each(_O.DELETE, _R.TOPIC, "topics", "name"),
    22: _init_producer_id,
    23: _offset_for_leader_epoch,
    24: _add_partitions_to_txn,
    25: _all_of(_TRANSACTION_WRITE, _GROUP_READ),
    26: _TRANSACTION_WRITE,
    27: _cluster(_O.ALTER, _O.CLUSTER_ACTION),
    28: _all_of(
        _TRANSACTION_WRITE,
        _GROUP_READ,
        _each_topic(_O.READ, "topics", ids_since=_TXN_OFFSET_COMMIT_IDS_SINCE),
    ),
    29: _cluster(_O.DESCRIBE),
    30: _cluster(_O.ALTER),
    31: _cluster(_O.ALTER),
    32: _configs(_O.DESCRIBE_CONFIGS),
    33: _configs(_O.ALTER_CONFIGS),
    34: _cluster(_O.ALTER),
    35: _cluster(_O.DESCRIBE),
    36: _free,
    37: _each(_O.ALTER, _R.TOPIC, "topics", "name"),
    42: _each(_O.DELETE, _R.GROUP, "groups_names"),
    43: _cluster(_O.ALTER),
    44: _configs(_O.ALTER_CONFIGS),
    45: _cluster(_O.ALTER),
    46: _cluster(_O.DESCRIBE),
    47: _one(_O.DELETE, _R.GROUP, "group_id"),
    48: _cluster(_O.DESCRIBE_CONFIGS),
    49: _cluster(_O.ALTER_CONFIGS),
    50: _cluster(_O.DESCRIBE),
    51: _cluster(_O.ALTER),
    56: _cluster(_O.CLUSTER_ACTION),
    58: _cluster(_O.CLUSTER_ACTION),
    60: _asks_itself,
    61: _each(_O.READ, _R.TOPIC, "topics", "name"),
    65: _each(_O.DESCRIBE, _R.TRANSACTIONAL_ID, "transactional_ids"),
    66: _asks_itself,
    67: _cluster(_O.CLUSTER_ACTION),
    68: _consumer_group_heartbeat,
    69: _each(_O.DESCRIBE, _R.GROUP, "group_ids"),
    75: _asks_itself,
}
