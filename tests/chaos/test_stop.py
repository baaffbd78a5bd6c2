"""SIGTERM under load: exit code 0, every acknowledged record there, marked clean, and the next start scans nothing."""

import threading

from chaos.wire_kit import (
    BrokerProcess,
    RawClient,
    batch,
    eventually,
    fetch_request,
    produce_request,
)

CLEAN_MARK = ".kafka_cleanshutdown"


class Producing:
    """A thread that produces until its connection ends; what was acknowledged."""

    def __init__(self, bootstrap, topic, acks=-1):
        self.acked = []
        self._client = RawClient(bootstrap)
        self._topic, self._acks = topic, acks
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        number = 0
        with self._client as client:
            while True:
                value = b"%d" % number
                try:
                    answer = client.produce(self._topic, batch(value), acks=self._acks)
                except (AssertionError, OSError):
                    return
                if answer.error_code == 0:
                    self.acked.append((answer.base_offset, value))
                number += 1


def test_sigterm_under_load(tmp_path):
    data = tmp_path / "data"
    with BrokerProcess(data) as broker:
        with RawClient(broker.bootstrap) as client:
            for number in range(4):
                assert client.create_topic(f"t{number}").error_code == 0
        load = [Producing(broker.bootstrap, f"t{number}") for number in range(4)]
        polls = [RawClient(broker.bootstrap) for _ in range(20)]
        for poll in polls:
            poll.send(fetch_request("t0", 2**40, max_wait_ms=60_000), 11)
            poll.send(fetch_request("t0", 0, max_wait_ms=60_000, min_bytes=2**30), 11)
        eventually(lambda: all(len(each.acked) > 200 for each in load), "records")
        assert broker.terminate() == 0
        for each in load:
            each.thread.join(30)
        for poll in polls:
            poll.socket.close()
        assert "ERROR" not in broker.log, broker.log[-2000:]
    assert (data / CLEAN_MARK).exists()
    with BrokerProcess(data, settings=("auto.create.topics.enable=false",)) as broker:
        assert "recover" not in broker.log.lower(), broker.log
        with RawClient(broker.bootstrap) as client:
            for number, each in enumerate(load):
                found = dict(client.read_all(f"t{number}"))
                lost = [
                    (offset, value) for offset, value in each.acked if found.get(offset) != value
                ]
                assert not lost, lost[:5]
                data_ = client.fetch(f"t{number}", 0)
                assert data_.error_code == 0
        assert not (data / CLEAN_MARK).exists(), "a crash from here on must be seen"
        assert broker.terminate() == 0


def test_sigterm_answers_what_waits(tmp_path):
    """A long poll gets its answer before the connection is closed."""
    with BrokerProcess(tmp_path / "data") as broker, RawClient(broker.bootstrap) as client:
        client.create_topic("t")
        request = fetch_request("t", 0, max_wait_ms=600_000)
        correlation_id = client.send(request, 11)
        behind = client.send(produce_request("t", batch(b"v")), 9)
        assert behind == correlation_id + 1
        with RawClient(broker.bootstrap) as other:
            other.end_offset("t")
        broker.process.terminate()
        answer = client.receive_for(request, 11, correlation_id)
        assert answer.responses[0].partitions[0].error_code == 0
        assert client.is_closed_by_peer()
        assert broker.process.wait(30) == 0
        broker.process.stdout.close()


def test_sigterm_does_not_wait_for_who_never_reads(tmp_path):
    with BrokerProcess(tmp_path / "data") as broker:
        with RawClient(broker.bootstrap, receive_buffer=4096) as client:
            client.create_topic("t", max_message_bytes=20_001_000)
            assert client.produce("t", batch(bytes(20_000_000))).error_code == 0
            client.send(fetch_request("t", 0, max_bytes=30_000_000), 11)
            with RawClient(broker.bootstrap) as other:
                other.end_offset("t")
            assert broker.terminate() == 0
        assert (tmp_path / "data" / CLEAN_MARK).exists()
