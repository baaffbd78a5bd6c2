"""`barnabas up` as a person or a supervisor runs it."""

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
from cluster_kit import wait_until
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from process_kit import ready_line, started

UP = [sys.executable, "-m", "barnabas.cli.main", "up"]
STOP_S = 30
TIMEOUT_S = 60


class Running:
    """A broker process: `ready` is the rest of its one line on stdout."""

    def __init__(self, *args, cwd=None, on_hangup=signal.SIG_DFL):
        self.process = subprocess.Popen(
            [*UP, *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            preexec_fn=partial(signal.signal, signal.SIGHUP, on_hangup),
        )
        self.line = ready_line(self.process)
        assert self.line, self.process.communicate(timeout=STOP_S)[1]
        self.ready = self.line.split()[1].split(",")

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=STOP_S)
        assert self.process.returncode == 0, err
        assert out == "", "only the ready line goes to stdout"
        return err

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def refused(*args):
    done = subprocess.run([*UP, *args], capture_output=True, text=True, timeout=60)
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_one_ready_line_and_a_clean_stop(tmp_path, number):
    with Running("--data-dir", str(tmp_path / "d"), "--listen", "127.0.0.1:0") as broker:
        assert (
            AdminClient({"bootstrap.servers": broker.ready[0]})
            .list_topics(timeout=TIMEOUT_S)
            .brokers
        )
        broker.stop(number)
    assert (tmp_path / "d" / ".kafka_cleanshutdown").exists()


def test_under_nohup_it_outlives_the_terminal(tmp_path):
    arguments = ("--data-dir", str(tmp_path / "d"), "--listen", "127.0.0.1:0")
    with Running(*arguments, on_hangup=signal.SIG_IGN) as broker:
        status = Path(f"/proc/{broker.process.pid}/status").read_text()
        ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
        assert ignored & 1 << (signal.SIGHUP - 1)
        broker.stop()


def test_a_mistyped_setting_is_refused_with_the_nearest(tmp_path):
    code, error = refused("--data-dir", str(tmp_path), "--set", "num.partitons=3")
    assert code == 2
    assert "num.partitions" in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--set", "num.partitions=many"], "num.partitions"),
        (["--set", "num.partitions"], "NAME=VALUE"),
        (["--listen", "9092"], "HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "65535"),
        (["--metrics", "nowhere"], "HOST:PORT"),
        (["--metrics", "127.0.0.1:99999"], "65535"),
        (["--set", "listeners=SSL://127.0.0.1:0"], "set ssl.keystore.location"),
        (["--listen", "SSL://127.0.0.1:0"], "set ssl.keystore.location"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_touched(tmp_path, args, words):
    data_dir = tmp_path / "d"
    code, error = refused("--data-dir", str(data_dir), *args)
    assert code == 2
    assert words in error
    assert not data_dir.exists()


def test_a_config_file_is_read_and_set_wins(tmp_path):
    settings = tmp_path / "server.properties"
    settings.write_text(
        f"# as Kafka has it\nlog.dirs={tmp_path}/d\nlisteners=PLAINTEXT://127.0.0.1:0\n"
        "num.partitions=7\nnum.io.threads=8\nlog.retention.hours=5\n"
    )
    with Running("--config", str(settings), "--set", "num.partitions=2") as broker:
        producer = Producer({"bootstrap.servers": broker.ready[0]})
        producer.produce("t", b"x")
        assert producer.flush(TIMEOUT_S) == 0
        topics = (
            AdminClient({"bootstrap.servers": broker.ready[0]})
            .list_topics(timeout=TIMEOUT_S)
            .topics
        )
        assert len(topics["t"].partitions) == 2
        assert "num.io.threads has no effect" in broker.stop()


def test_a_directory_in_use_is_refused(tmp_path):
    args = ["--data-dir", str(tmp_path), "--listen", "127.0.0.1:0"]
    with Running(*args):
        code, error = refused(*args)
    assert code == 1
    assert str(tmp_path) in error
    assert "Traceback" not in error


def test_several_listeners_each_tell_their_own_address(tmp_path):
    args = ["--listen", "127.0.0.1:0", "--listen", "[::1]:0", "--listen", "127.0.0.2:0"]
    with Running("--data-dir", str(tmp_path), *args) as broker:
        assert len(broker.ready) == 3
        for address in broker.ready:
            brokers = (
                AdminClient({"bootstrap.servers": address}).list_topics(timeout=TIMEOUT_S).brokers
            )
            host, _, port = address.rpartition(":")
            assert [(b.host, b.port) for b in brokers.values()] == [(host.strip("[]"), int(port))]


def test_an_advertised_address_is_told_instead(tmp_path):
    told = "PLAINTEXT://localhost:12345"
    args = ["--listen", "127.0.0.1:0", "--set", f"advertised.listeners={told}"]
    with Running("--data-dir", str(tmp_path), *args) as broker:
        brokers = (
            AdminClient({"bootstrap.servers": broker.ready[0]})
            .list_topics(timeout=TIMEOUT_S)
            .brokers
        )
        assert [(b.host, b.port) for b in brokers.values()] == [("localhost", 12345)]


def test_json_logs_are_one_object_per_line(tmp_path):
    args = ["--data-dir", str(tmp_path), "--listen", "127.0.0.1:0", "--log-format", "json"]
    with Running(*args) as broker:
        producer = Producer({"bootstrap.servers": broker.ready[0]})
        producer.produce("t", b"x")
        assert producer.flush(TIMEOUT_S) == 0
        events = [json.loads(line) for line in broker.stop().splitlines()]
    created = [event for event in events if "created topic t" in event["message"]]
    assert created
    assert created[0].keys() >= {"time", "level", "logger", "message"}


def metrics_address(broker):
    """Where the broker says they are."""
    (url,) = islice((line.split()[-1] for line in broker.process.stderr if "metrics at" in line), 1)
    return url


def read_samples(url):
    """Sample -> value, and the whole text."""
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        text = answer.read().decode()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return dict(line.rsplit(" ", 1) for line in lines), text


def test_metrics_have_kafkas_names(tmp_path):
    args = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
    with Running("--data-dir", str(tmp_path), *args) as broker:
        url = metrics_address(broker)
        producer = Producer({"bootstrap.servers": broker.ready[0]})
        for _ in range(5):
            producer.produce("t", b"x" * 100)
        assert producer.flush(TIMEOUT_S) == 0
        samples, text = read_samples(url)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(url.replace("/metrics", "/"), timeout=TIMEOUT_S)
        broker.stop()
    assert samples['kafka_server_brokertopicmetrics_messagesin_total{topic="t"}'] == "5"
    assert int(samples['kafka_server_brokertopicmetrics_bytesin_total{topic="t"}']) > 500
    assert samples["kafka_log_logmanager_offlinelogdirectorycount"] == "0"
    assert samples['kafka_topic_partition_current_offset{topic="t",partition="0"}'] == "5"
    assert samples["kafka_server_replicamanager_partitioncount"] == "1"
    assert samples["kafka_server_replicamanager_produceridcount"] == "0"
    assert samples["kafka_controller_kafkacontroller_offlinepartitionscount"] == "0"
    # One, unless the client was slow to fill it.
    assert 1 <= int(samples['kafka_network_requestmetrics_requests_total{request="Produce"}']) <= 5
    assert 0 <= float(samples["kafka_network_socketserver_networkprocessoravgidle_percent"]) <= 1
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert {key.partition("{")[0] for key in samples} <= names


def test_metrics_count_producers_and_late_transactions(tmp_path):
    """Late by the times of its records: they are an hour old, and fifteen minutes are allowed."""
    args = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
    with Running("--data-dir", str(tmp_path), *args) as broker:
        url = metrics_address(broker)
        producer = Producer({"bootstrap.servers": broker.ready[0], "transactional.id": "id"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("t", b"x", timestamp=time.time_ns() // 1_000_000 - 3_600_000)
        assert producer.flush(30) == 0
        late = "kafka_server_replicamanager_partitionswithlatetransactionscount"
        samples, _ = read_samples(url)
        assert samples["kafka_server_replicamanager_produceridcount"] == "1"
        assert samples[late] == "1"
        producer.abort_transaction(30)
        wait_until(lambda: read_samples(url)[0][late] == "0", "its marker is written")
        broker.stop()


def test_help_names_the_options():
    done = subprocess.run([*UP, "--help"], capture_output=True, text=True, timeout=60, check=True)
    for option in ("--data-dir", "--listen", "--set", "--config", "--metrics", "--log-format"):
        assert option in done.stdout


def test_a_closed_stdout_does_not_matter(tmp_path):
    script = f"exec {sys.executable} -m barnabas.cli.main up --data-dir d --listen 127.0.0.1:0 >&-"
    with started(["sh", "-c", script], cwd=tmp_path, stderr=subprocess.PIPE) as broker:
        meta = tmp_path / "d" / "meta.properties"
        while not meta.exists():
            assert broker.poll() is None, broker.stderr.read()
        broker.terminate()
        assert broker.wait(STOP_S) == 0
