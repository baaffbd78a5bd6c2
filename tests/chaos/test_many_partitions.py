"""Two thousand partitions on a process that may open 256 files: descriptors and memory stay bounded."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from process_kit import ready_line

FILES_MAX = 256
TOPICS, PARTITIONS = 20, 100
#: Generous: what must not happen is a cost that grows with index sizes or open files.
MEMORY_PER_PARTITION_MAX = 40 * 1024


def limit_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_MAX, FILES_MAX))


def start(data_dir):
    command = [sys.executable, "-m", "barnabas.cli.main", "up", "--data-dir", str(data_dir)]
    process = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", "--log-level", "warning"],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=limit_files,
    )
    return process, ready_line(process).split()[-1]


def stop(process):
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    process.stdout.close()


def resident_bytes(process):
    statm = Path(f"/proc/{process.pid}/statm").read_text()
    return int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def names():
    return [f"t{number}" for number in range(TOPICS)]


def test_descriptors_and_memory_stay_bounded(tmp_path):
    process, bootstrap = start(tmp_path)
    try:
        before = resident_bytes(process)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.create_topics([NewTopic(n, PARTITIONS, 1) for n in names()]).values():
            future.result(60)
        producer = Producer({"bootstrap.servers": bootstrap})
        for name in names():
            for partition in range(PARTITIONS):
                producer.produce(name, b"x", partition=partition)
        assert producer.flush(60) == 0
        grown = resident_bytes(process) - before
        assert open_files(process) < FILES_MAX
        assert grown / (TOPICS * PARTITIONS) < MEMORY_PER_PARTITION_MAX
        stop(process)
        process, bootstrap = start(tmp_path)
        assert open_files(process) < FILES_MAX
        assert read_all(bootstrap) == TOPICS * PARTITIONS
        stop(process)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
            process.stdout.close()


def read_all(bootstrap):
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(n, p, 0) for n in names() for p in range(PARTITIONS)])
    count = 0
    while count < TOPICS * PARTITIONS:
        messages = consumer.consume(1000, 30)
        assert messages, f"only {count} records came"
        count += sum(message.error() is None for message in messages)
    consumer.close()
    return count
