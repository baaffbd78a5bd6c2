"""OffsetDelete through librdkafka itself: its Python binding has every other request for groups but this one.

One job. The functions are called in the library that confluent-kafka has loaded, so every client setting (TLS, SASL)
means the same. Handles and lists belong to librdkafka: each is destroyed here, also when something fails.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.connection import CLIENT_ID
from barnabas.cli.failure import Failure, failure
from barnabas.cli.group_view import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from confluent_kafka import KafkaError

    from barnabas.cli.connection import Connection

# Values of rdkafka.h that are part of its stable interface.
_PRODUCER = 0
_OK = 0
_ADMIN_OP_ANY = 0
_TEXT_BYTES = 512
# More than the request's own time-out: its event comes first.
_GRACE_S = 5.0
_TIMED_OUT = -185

_POINTER, _TEXT, _SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
_INT, _INT32, _INT64 = ctypes.c_int, ctypes.c_int32, ctypes.c_int64


class _Partition(ctypes.Structure):
    """rd_kafka_topic_partition_t."""

    _fields_ = (
        ("topic", _TEXT),
        ("partition", _INT32),
        ("offset", _INT64),
        ("metadata", _POINTER),
        ("metadata_size", _SIZE),
        ("opaque", _POINTER),
        ("err", _INT),
        ("private", _POINTER),
    )


class _Partitions(ctypes.Structure):
    """rd_kafka_topic_partition_list_t."""

    _fields_ = (("cnt", _INT), ("size", _INT), ("elems", ctypes.POINTER(_Partition)))


_LIST = ctypes.POINTER(_Partitions)
# name: (result, arguments)
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "rd_kafka_conf_new": (_POINTER, ()),
    "rd_kafka_conf_set": (_INT, (_POINTER, _TEXT, _TEXT, _TEXT, _SIZE)),
    "rd_kafka_conf_destroy": (None, (_POINTER,)),
    "rd_kafka_new": (_POINTER, (_INT, _POINTER, _TEXT, _SIZE)),
    "rd_kafka_destroy": (None, (_POINTER,)),
    "rd_kafka_queue_new": (_POINTER, (_POINTER,)),
    "rd_kafka_queue_destroy": (None, (_POINTER,)),
    "rd_kafka_queue_poll": (_POINTER, (_POINTER, _INT)),
    "rd_kafka_event_error": (_INT, (_POINTER,)),
    "rd_kafka_event_destroy": (None, (_POINTER,)),
    "rd_kafka_topic_partition_list_new": (_LIST, (_INT,)),
    "rd_kafka_topic_partition_list_add": (_POINTER, (_LIST, _TEXT, _INT32)),
    "rd_kafka_topic_partition_list_destroy": (None, (_LIST,)),
    "rd_kafka_AdminOptions_new": (_POINTER, (_POINTER, _INT)),
    "rd_kafka_AdminOptions_destroy": (None, (_POINTER,)),
    "rd_kafka_AdminOptions_set_request_timeout": (_INT, (_POINTER, _INT, _TEXT, _SIZE)),
    "rd_kafka_DeleteConsumerGroupOffsets_new": (_POINTER, (_TEXT, _LIST)),
    "rd_kafka_DeleteConsumerGroupOffsets_destroy": (None, (_POINTER,)),
    "rd_kafka_DeleteConsumerGroupOffsets": (None, (_POINTER, _POINTER, _SIZE, _POINTER, _POINTER)),
    "rd_kafka_event_DeleteConsumerGroupOffsets_result": (_POINTER, (_POINTER,)),
    "rd_kafka_DeleteConsumerGroupOffsets_result_groups": (
        ctypes.POINTER(_POINTER),
        (_POINTER, ctypes.POINTER(_SIZE)),
    ),
    "rd_kafka_group_result_error": (_POINTER, (_POINTER,)),
    "rd_kafka_error_code": (_INT, (_POINTER,)),
    "rd_kafka_group_result_partitions": (_LIST, (_POINTER,)),
}


def delete_offsets(
    connection: Connection, group: str, places: Sequence[Place]
) -> dict[Place, KafkaError]:
    """Remove what `group` committed for `places`; the errors of single partitions. Failure when none could be."""
    connection.admin()  # says at once when nobody listens at the address
    library = _load()
    with contextlib.ExitStack() as stack:
        client = _client(library, _settings(connection), stack)
        event = _ask(library, client, (group, places), connection.timeout_s, stack)
        _check(connection, library.rd_kafka_event_error(event) if event else _TIMED_OUT, group)
        return _read_answer(library, event, group)


def _settings(connection: Connection) -> dict[str, str]:
    own = {"client.id": CLIENT_ID, "bootstrap.servers": connection.bootstrap}
    quiet = {} if "debug" in connection.settings else {"log_level": "0"}
    return {**own, **quiet, **connection.settings}


def _load() -> Any:  # noqa: ANN401 - a library's functions have no types
    """The librdkafka in use: symbols of a module's libraries are found through the module."""
    from confluent_kafka import cimpl

    library = ctypes.CDLL(cimpl.__file__)
    for name, (result, arguments) in _FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise Failure(
                f"the installed confluent-kafka does not offer {name}",
                "pip install --upgrade confluent-kafka, or use Kafka's kafka-consumer-groups --delete-offsets",
            ) from None
        function.restype, function.argtypes = result, arguments
    return library


def _client(library: Any, settings: Mapping[str, str], stack: contextlib.ExitStack) -> Any:  # noqa: ANN401
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    configuration = library.rd_kafka_conf_new()
    for name, value in settings.items():
        code = library.rd_kafka_conf_set(
            configuration, name.encode(), value.encode(), text, _TEXT_BYTES
        )
        if code != _OK:
            library.rd_kafka_conf_destroy(configuration)
            raise click.UsageError(f"-X: {text.value.decode(errors='replace')}")
    client = library.rd_kafka_new(_PRODUCER, configuration, text, _TEXT_BYTES)
    if not client:
        library.rd_kafka_conf_destroy(configuration)
        raise click.UsageError(f"-X: {text.value.decode(errors='replace')}")
    stack.callback(library.rd_kafka_destroy, client)
    return client


def _ask(
    library: Any,  # noqa: ANN401
    client: Any,  # noqa: ANN401
    what: tuple[str, Sequence[Place]],
    timeout_s: float,
    stack: contextlib.ExitStack,
) -> Any:  # noqa: ANN401
    """Send the request and wait for its event; None if none came."""
    group, places = what
    queue = library.rd_kafka_queue_new(client)
    stack.callback(library.rd_kafka_queue_destroy, queue)
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    options = library.rd_kafka_AdminOptions_new(client, _ADMIN_OP_ANY)
    stack.callback(library.rd_kafka_AdminOptions_destroy, options)
    library.rd_kafka_AdminOptions_set_request_timeout(
        options, int(timeout_s * 1000), text, _TEXT_BYTES
    )
    with _request(library, group, places) as request:
        requests = (_POINTER * 1)(request)
        library.rd_kafka_DeleteConsumerGroupOffsets(client, requests, 1, options, queue)
    event = library.rd_kafka_queue_poll(queue, int((timeout_s + _GRACE_S) * 1000))
    if event:
        stack.callback(library.rd_kafka_event_destroy, event)
    return event


@contextlib.contextmanager
def _request(library: Any, group: str, places: Sequence[Place]) -> Iterator[Any]:  # noqa: ANN401
    partitions = library.rd_kafka_topic_partition_list_new(len(places))
    for topic, partition in places:
        library.rd_kafka_topic_partition_list_add(partitions, topic.encode(), partition)
    request = library.rd_kafka_DeleteConsumerGroupOffsets_new(group.encode(), partitions)
    library.rd_kafka_topic_partition_list_destroy(partitions)
    try:
        yield request
    finally:
        library.rd_kafka_DeleteConsumerGroupOffsets_destroy(request)


def _check(connection: Connection, code: int, group: str) -> None:
    from confluent_kafka import KafkaError

    if code != _OK:
        error = KafkaError(code)
        connection.check_alive(error)
        raise failure(f"group {group}", error)


def _read_answer(library: Any, event: Any, group: str) -> dict[Place, KafkaError]:  # noqa: ANN401
    from confluent_kafka import KafkaError

    answer = library.rd_kafka_event_DeleteConsumerGroupOffsets_result(event)
    count = _SIZE()
    groups = library.rd_kafka_DeleteConsumerGroupOffsets_result_groups(answer, ctypes.byref(count))
    assert count.value == 1
    problem = library.rd_kafka_group_result_error(groups[0])
    if problem:
        raise failure(f"group {group}", KafkaError(library.rd_kafka_error_code(problem)))
    partitions = library.rd_kafka_group_result_partitions(groups[0]).contents
    found = (partitions.elems[number] for number in range(partitions.cnt))
    return {Place(p.topic.decode(), p.partition): KafkaError(p.err) for p in found if p.err}
