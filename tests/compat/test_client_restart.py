"""A broker that goes away and comes back while our client reads and writes: nothing is lost, doubled or out of order."""

import contextlib
import threading

import pytest

import barnabas
from barnabas.client.offsets import LATEST
from barnabas.client.settings import ClientSettings
from barnabas.model.ids import TopicPartition
from barnabas.runtime.blocking_client import BlockingClient
from barnabas.runtime.lasting_port import lasting_port
from barnabas.wire.batch import TRANSACTIONAL, Record, build, read_records
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

PLACE = TopicPartition("t", 0)
BATCHES = 60


class Restarting:
    """A broker at one address that can be stopped and started again."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.port = lasting_port("127.0.0.1")
        self.broker = barnabas.Broker(data_dir=self.folder, port=self.port)

    def restart(self):
        self.broker.close()
        self.broker = barnabas.Broker(data_dir=self.folder, port=self.port)

    @contextlib.contextmanager
    def restarting(self):
        """It stops now, and comes back while the block runs."""
        self.broker.close()

        def start():
            self.broker = barnabas.Broker(data_dir=self.folder, port=self.port)

        thread = threading.Thread(target=start)
        thread.start()
        try:
            yield
        finally:
            thread.join()


@pytest.fixture
def there(tmp_path):
    running = Restarting(tmp_path)
    yield running
    running.broker.close()


@pytest.fixture
def client(there):
    settings = ClientSettings(
        bootstrap=(("127.0.0.1", there.port),), max_partition_fetch_bytes=2000
    )
    with BlockingClient(settings) as opened:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        answer = opened.ask(
            opened.brokers()[0], CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        )
        assert answer.topics[0].error_code == 0
        yield opened


def write(session, number):
    fields = session.claim(PLACE, 2)
    attributes = TRANSACTIONAL if session.is_transactional else 0
    values = [b"%d" % (2 * number), b"%d" % (2 * number + 1) + b"x" * 500]
    records = [Record(index, 0, None, value) for index, value in enumerate(values)]
    session.add(PLACE, build(records, producer=fields, attributes=attributes))


def numbers(client, isolation="read_uncommitted", on_chunk=lambda: None):
    end = client.list_offsets({PLACE: LATEST})[PLACE].offset
    found = []
    for chunk in client.read_range(PLACE, 0, end, isolation):
        for batch in chunk.batches:
            found += [int(each.value.rstrip(b"x")) for each in read_records(batch, 1 << 20)]
        on_chunk()
    return found


def test_writing(there, client):
    session = client.idempotent_producer()
    for number in range(BATCHES):
        write(session, number)
        if number % 20 == 10:
            with there.restarting():
                session.flush()
    session.flush()
    assert numbers(client) == list(range(2 * BATCHES))


def test_answers_that_nobody_has_read_yet(there, client):
    session = client.idempotent_producer()
    write(session, 0)
    session.flush()
    for number in range(1, 10):
        write(session, number)
    # All that may be under way at once is done and answered, and the rest is still to be sent when the link breaks.
    with BlockingClient(client.settings) as other:
        while other.list_offsets({PLACE: LATEST})[PLACE].offset < 2 * 6:
            pass
    there.restart()
    session.flush()
    assert numbers(client) == list(range(2 * 10))


def test_reading(there, client):
    session = client.idempotent_producer()
    for number in range(BATCHES):
        write(session, number)
    session.flush()
    chunks = iter(range(1000))

    def restart_sometimes():
        if next(chunks) in (3, 9):
            there.restart()

    assert numbers(client, on_chunk=restart_sometimes) == list(range(2 * BATCHES))


def test_transactions(there, client):
    session = client.transactional_producer("x")
    for number in range(BATCHES // 4):
        session.begin()
        write(session, number)
        if number % 5 == 2:
            with there.restarting():
                session.send_offsets("g", {PLACE: number})
        if number % 5 == 3:
            with there.restarting():
                session.commit()
        else:
            session.commit()
    assert numbers(client, "read_committed") == list(range(BATCHES // 2))
    assert client.committed("g") == {PLACE: BATCHES // 4 - 3}
