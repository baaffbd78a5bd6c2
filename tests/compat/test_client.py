"""Our own client against our own broker and against Apache Kafka: it must not see a difference.

Everything that `BlockingClient` does, over every kind of listener.
"""

import pytest
from compat.client_clusters import PASSWORDS, barnabas_listeners, kafka_listeners
from confluent_kafka import Producer

from barnabas.client.errors import (
    AuthenticationFailed,
    Fenced,
    OffsetOutOfRange,
    Refused,
    UnknownTopic,
    Unreachable,
)
from barnabas.client.offsets import EARLIEST, LATEST, NO_OFFSET
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.runtime.blocking_client import BlockingClient
from barnabas.wire.batch import TRANSACTIONAL, Record, build, read_records

LIMIT = 1 << 26
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module", params=["barnabas", pytest.param("kafka", marks=pytest.mark.java)])
def there(request, tmp_path_factory):
    start = barnabas_listeners if request.param == "barnabas" else kafka_listeners
    with start(tmp_path_factory.mktemp(request.param)) as listeners:
        yield listeners


@pytest.fixture
def client(there):
    with there.client() as opened:
        yield opened


def write(session, place, *values, time=1000):
    """One batch of values."""
    fields = session.claim(place, len(values))
    attributes = TRANSACTIONAL if session.is_transactional else 0
    records = [Record(index, time, None, value) for index, value in enumerate(values)]
    session.add(place, build(records, producer=fields, attributes=attributes))


def read(client, place, start=0, end=None, isolation="read_uncommitted"):
    if end is None:
        end = client.list_offsets({place: LATEST})[place].offset
    return [
        record.value
        for chunk in client.read_range(place, start, end, isolation)
        for batch in chunk.batches
        for record in read_records(batch, LIMIT)
        if start <= record.offset < end
    ]


# -- topics and offsets --------------------------------------------------------------------------


def test_topics_and_partitions(there, client, topic_name):
    there.create(topic_name, 3)
    assert topic_name in client.topics()
    assert client.partitions([topic_name]) == {topic_name: [0, 1, 2]}
    with pytest.raises(UnknownTopic, match="there is no topic 'gone'"):
        client.partitions(["gone"])
    assert "gone" not in client.topics()


def test_limits(there, client, topic_name):
    there.create(topic_name, cleanup_policy="compact", max_message_bytes="5000")
    assert client.topic_limits(topic_name) == (5000, True)


def test_offsets_by_place_and_time(there, client, topic_name):
    there.create(topic_name, 2)
    first, second = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
    session = client.idempotent_producer()
    for time in (1000, 2000, 3000):
        write(session, first, b"a", b"b", time=time)
    session.flush()
    assert client.list_offsets({first: EARLIEST, second: EARLIEST}) == {
        first: (0, -1),
        second: (0, -1),
    }
    assert client.list_offsets({first: LATEST})[first].offset == 6
    assert client.list_offsets({first: 1500}) == {first: (2, 2000)}
    assert client.list_offsets({first: 9000, second: 0})[first].offset == NO_OFFSET
    with pytest.raises(UnknownTopic):
        client.list_offsets({TopicPartition(topic_name, 7): LATEST})


def test_a_group_without_members(there, client, topic_name):
    there.create(topic_name, 2)
    places = [TopicPartition(topic_name, each) for each in range(2)]
    assert client.committed(topic_name, places) == {}
    client.commit(topic_name, {places[0]: 7})
    assert client.committed(topic_name, places) == {places[0]: 7}
    client.commit(topic_name, {places[0]: 9, places[1]: 1})
    assert client.committed(topic_name) == {places[0]: 9, places[1]: 1}


# -- reading -------------------------------------------------------------------------------------


def test_ranges_of_what_another_client_wrote(there, topic_name):
    there.create(topic_name)
    place = TopicPartition(topic_name, 0)
    producer = Producer({"bootstrap.servers": there.addresses["PLAINTEXT"], "linger.ms": 5})
    values = [b"%05d" % number + b"x" * 500 for number in range(2000)]
    for value in values:
        producer.produce(topic_name, value)
    assert producer.flush(30) == 0
    # A small fetch size makes many answers, each asked for before the last one is read.
    with there.client(max_partition_fetch_bytes="20000") as client:
        assert read(client, place) == values
        assert read(client, place, 777, 1234) == values[777:1234]
        assert read(client, place, 5, 5) == []
        with pytest.raises(OffsetOutOfRange, match="has 0 to 2000: the log ends before"):
            read(client, place, 2001, 2005)


def test_lost_records_are_no_silent_gap(there, client, topic_name):
    from confluent_kafka import TopicPartition as Place
    from confluent_kafka.admin import AdminClient

    there.create(topic_name)
    place = TopicPartition(topic_name, 0)
    session = client.idempotent_producer()
    write(session, place, *(b"%d" % number for number in range(10)))
    session.flush()
    admin = AdminClient({"bootstrap.servers": there.addresses["PLAINTEXT"]})
    for done in admin.delete_records([Place(topic_name, 0, 4)]).values():
        done.result(30)
    with pytest.raises(OffsetOutOfRange) as raised:
        read(client, place, 2, 10)
    assert raised.value.is_loss
    assert (raised.value.log_start_offset, raised.value.log_end_offset) == (4, 10)
    assert read(client, place, 4, 10) == [b"4", b"5", b"6", b"7", b"8", b"9"]


def test_an_abandoned_range_leaves_the_client_usable(there, topic_name):
    there.create(topic_name)
    place = TopicPartition(topic_name, 0)
    with there.client(max_partition_fetch_bytes="1000") as client:
        session = client.idempotent_producer()
        for number in range(50):
            write(session, place, b"x" * 500, b"%d" % number)
        session.flush()
        chunks = client.read_range(place, 0, 100)
        next(chunks)
        chunks.close()
        assert len(read(client, place)) == 100


# -- transactions --------------------------------------------------------------------------------


def test_committed_and_aborted(there, client, topic_name):
    there.create(topic_name, 2)
    first, second = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
    session = client.transactional_producer(topic_name)
    for number, is_good in enumerate((True, False, True, True)):
        session.begin()
        write(session, first, b"%d" % number)
        write(session, second, b"%d" % number, b"%d again" % number)
        session.send_offsets(topic_name, {first: number})
        session.flush()  # what is aborted need not be sent, and is to be seen here
        if is_good:
            session.commit()
        else:
            session.abort()
    session.begin()
    session.commit()  # nothing in it
    assert client.committed(topic_name) == {first: 3}
    assert read(client, first, isolation="read_committed") == [b"0", b"2", b"3"]
    assert read(client, first) == [b"0", b"1", b"2", b"3"]
    assert len(read(client, second, isolation="read_committed")) == 6
    # The ends of ranges lie anywhere, in aborted batches, too.
    end = client.list_offsets({second: LATEST})[second].offset
    everything = read(client, second, isolation="read_committed")
    for cut in range(end):
        before = read(client, second, 0, cut, "read_committed")
        assert before + read(client, second, cut, end, "read_committed") == everything


def test_an_older_producer_is_fenced_and_its_transaction_aborted(there, client, topic_name):
    there.create(topic_name)
    place = TopicPartition(topic_name, 0)
    old = client.transactional_producer(topic_name)
    old.begin()
    write(old, place, b"old")
    old.flush()
    with there.client() as other:
        new = other.transactional_producer(topic_name)
        new.begin()
        write(new, place, b"new")
        with pytest.raises(Fenced, match="another producer has taken over"):
            old.commit()
        with pytest.raises(Fenced):
            old.begin()
        new.commit()
    assert read(client, place, isolation="read_committed") == [b"new"]


def test_a_transaction_that_somebody_else_ends(there, client, topic_name):
    there.create(topic_name)
    place = TopicPartition(topic_name, 0)
    for name, is_good in (("good", True), ("bad", False)):
        with there.client() as writer:
            session = writer.transactional_producer(f"{topic_name}-{name}")
            session.begin()
            write(session, place, name.encode())
            prepared = session.detach()
        client.end_transaction(prepared, commit=is_good)
    assert read(client, place, isolation="read_committed") == [b"good"]
    with there.client() as writer:
        writer.transactional_producer(f"{topic_name}-good")
    with pytest.raises(Refused):
        client.end_transaction(
            prepared._replace(producer_epoch=prepared.producer_epoch - 1), commit=True
        )


def test_a_refused_batch_ends_the_transaction_and_the_next_works(there, client, topic_name):
    there.create(topic_name, max_message_bytes="1000")
    place = TopicPartition(topic_name, 0)
    session = client.transactional_producer(topic_name)
    session.begin()

    def write_and_commit():
        """Be refused, here or there: it depends on when the answer comes."""
        write(session, place, b"x" * 5000)
        session.commit()

    with pytest.raises(Refused) as raised:
        write_and_commit()
    assert raised.value.code == ErrorCode.MESSAGE_TOO_LARGE
    session.abort()
    session.begin()
    write(session, place, b"small")
    session.commit()
    assert read(client, place, isolation="read_committed") == [b"small"]


def test_a_time_out_that_the_broker_refuses(there, client, topic_name):
    with pytest.raises(Refused) as raised:
        client.transactional_producer(topic_name, timeout_ms=2**31 - 1)
    assert raised.value.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


# -- getting in ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_names_and_passwords(there, listener, mechanism):
    login = {"sasl_mechanism": mechanism, "sasl_username": "alice"}
    with there.client(listener, **login, sasl_password=PASSWORDS["alice"]) as client:
        assert len(client.brokers()) == 1
    with (
        there.client(listener, **login, sasl_password="wrong-9") as client,
        pytest.raises(AuthenticationFailed) as raised,
    ):
        client.brokers()
    assert "wrong-9" not in str(raised.value)


def test_jaas_as_java_users_write_it(there):
    jaas = f'{SCRAM} required username="alice" password="{PASSWORDS["alice"]}";'
    with there.client("SASL_SSL", sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=jaas) as client:
        assert len(client.brokers()) == 1


def test_a_mechanism_that_is_not_offered(there):
    if there.kind == "barnabas":
        pytest.skip("ours offers all")
    settings = there.settings().replace(
        security_protocol="SASL_PLAINTEXT",
        bootstrap=there.settings(
            "SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_username="a", sasl_password="b"
        ).bootstrap,
        sasl_mechanism="OAUTHBEARER",
        token_provider=lambda: "a.b.c",
    )
    with (
        BlockingClient(settings) as client,
        pytest.raises(AuthenticationFailed, match=r"it has .*PLAIN"),
    ):
        client.brokers()


def test_tokens(there):
    if there.kind == "kafka":
        pytest.skip("Kafka wants its issuer on the command line")
    base = there.settings("SASL_SSL", sasl_mechanism="PLAIN", sasl_username="a", sasl_password="b")
    for token, is_good in ((there.tokens.make("alice"), True), ("a.b.c", False)):
        settings = base.replace(
            sasl_mechanism="OAUTHBEARER", token_provider=lambda token=token: token
        )
        with BlockingClient(settings) as client:
            if is_good:
                assert len(client.brokers()) == 1
            else:
                with pytest.raises(AuthenticationFailed):
                    client.brokers()


def test_tls_and_who_it_trusts(there, topic_name):
    with there.client("SSL") as client:
        assert len(client.brokers()) == 1
    with (
        there.client("SSL", ssl_ca_location=str(there.files.stranger)) as client,
        pytest.raises(AuthenticationFailed, match="its certificate is not accepted"),
    ):
        client.brokers()
    with there.client("SSL", ssl_endpoint_identification_algorithm="") as client:
        assert len(client.brokers()) == 1


def test_certificates_of_clients(there):
    files = there.files
    mine = {
        "ssl_certificate_location": str(files.client_certificate),
        "ssl_key_location": str(files.client_key),
    }
    with there.client("MUTUAL", **mine) as client:
        assert len(client.brokers()) == 1
    with there.client("MUTUAL", ssl_keystore_location=str(files.client)) as client:
        assert len(client.brokers()) == 1
    with (
        there.client("MUTUAL", default_api_timeout_ms="1000") as client,
        pytest.raises((AuthenticationFailed, Unreachable)),
    ):
        client.brokers()


def test_large_ranges_over_tls(there, topic_name):
    there.create(topic_name, 2)
    with there.client("SSL") as client:
        session = client.idempotent_producer()
        places = [TopicPartition(topic_name, each) for each in range(2)]
        for number in range(40):
            write(session, places[number % 2], b"x" * 100_000, b"%d" % number)
        session.flush()
        assert [len(read(client, place)) for place in places] == [40, 40]


def test_the_wrong_protocol_is_told_and_not_waited_for(there):
    tls = there.settings("SSL").replace(api_timeout_ms=1000)
    to_plain = tls.replace(bootstrap=there.settings().bootstrap)
    with BlockingClient(to_plain) as client, pytest.raises((AuthenticationFailed, Unreachable)):
        client.brokers()
    plain = there.settings(request_timeout_ms="3000", default_api_timeout_ms="100")
    to_tls = plain.replace(bootstrap=tls.bootstrap)
    with (
        BlockingClient(to_tls) as client,
        pytest.raises(Exception, match=r"Kafka broker|closed|answer"),
    ):
        client.brokers()
