"""Members of consumer groups made of librdkafka, and a broker that can be stopped, for the tests about groups."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import confluent_kafka as ck
import confluent_kafka.admin as cka
from compat.apache_kafka import free_ports
from process_kit import ready_line

HERE = Path(__file__).parent
TIMEOUT_S = 60
# Short, so that a dead member is missed soon and the first one does not wait for company; not so short that a living one is missed on a
# machine with much else to do.
GROUP_SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
    "group.consumer.min.session.timeout.ms=1000",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=300",
    "offsets.topic.num.partitions=5",
)
# In the consumer protocol the broker says these two.
TIME_OUTS = {
    "classic": {"session.timeout.ms": 6000, "heartbeat.interval.ms": 300},
    "consumer": {},
}

NOT_YET = (
    ck.KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    ck.KafkaError.COORDINATOR_NOT_AVAILABLE,
    ck.KafkaError.NOT_COORDINATOR,
    ck.KafkaError.GROUP_ID_NOT_FOUND,
)


def member_settings(bootstrap, group, protocol="classic", **settings):
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 50,
        "topic.metadata.refresh.interval.ms": 500,
        **TIME_OUTS[protocol],
        **settings,
    }


class Member:
    """A consumer in this process. It polls when the test lets it, through `until`."""

    def __init__(self, topics, settings):
        self.consumer = ck.Consumer(settings)
        self.read = []
        self.ends = []  # (partition, offset), with enable.partition.eof
        self.calls = []
        self.consumer.subscribe(
            topics,
            on_assign=lambda _, given: self.calls.append(("assign", places(given))),
            on_revoke=lambda _, taken: self.calls.append(("revoke", places(taken))),
            on_lost=lambda _, lost: self.calls.append(("lost", places(lost))),
        )

    @property
    def owned(self):
        return places(self.consumer.assignment())

    @property
    def values(self):
        return [message.value().decode() for message in self.read]

    def poll(self, timeout_s):
        """The next record, if one is there; it counts as read."""
        message = self.consumer.poll(timeout_s)
        if message is None:
            return None
        if message.error() and message.error().code() == ck.KafkaError._PARTITION_EOF:
            self.ends.append((message.partition(), message.offset()))
            return None
        assert message.error() is None, message.error()
        self.read.append(message)
        return message

    def commit(self, *offsets):
        """Commit what was read, or what is given, and wait for the answer."""
        if offsets:
            return self.consumer.commit(offsets=list(offsets), asynchronous=False)
        return self.consumer.commit(asynchronous=False)

    def committed(self, *partitions):
        return [p.offset for p in self.consumer.committed(list(partitions), TIMEOUT_S)]

    def close(self):
        """Leave the group."""
        self.consumer.close()

    def drop(self):
        """Go without a word: for the end of a test.

        librdkafka's close() may wait for ever when a rebalance comes while it closes (2.16: its callback assigns, and
        whoever should carry that out has ended), as it does when many members of a group go one after the other.
        """
        self.consumer = None


class MemberProcess:
    """A consumer in a process of its own: see member_process.py. `events` is what it told so far."""

    def __init__(self, topics, settings, order="process", crash_at=None):
        plan = {"topics": topics, "settings": settings, "order": order, "crash_at": crash_at}
        command = [sys.executable, str(HERE / "member_process.py"), json.dumps(plan)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.events = []

    def wait_for(self, name, **what):
        """Listen until it tells this; the whole test has a time-out."""
        wanted = {"event": name} | what
        for line in self.process.stdout:
            event = json.loads(line)
            self.events.append(event)
            if wanted.items() <= event.items():
                return event
        raise AssertionError(f"it ended and never said {wanted}: {self.events}")

    def wait_until_processed(self, count):
        while len(self.processed) < count:
            self.wait_for("processed")

    def hear_out(self):
        """Wait until it has died by itself; return what it processed."""
        self.events += [json.loads(line) for line in self.process.stdout]
        assert self.process.wait(TIMEOUT_S) == -signal.SIGKILL
        return self.processed

    @property
    def processed(self):
        return [event["value"] for event in self.events if event["event"] == "processed"]

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        """Without a word to the broker: SIGKILL, for which no client can prepare."""
        self.process.kill()
        self.process.wait(TIMEOUT_S)

    def drop(self):
        if self.process.poll() is None:
            self.kill()
        self.process.stdout.close()


class StoppableBroker:
    """A broker of its own that comes back where it was."""

    def __init__(self, home):
        self.home = home
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self.log = (home / "broker.log").open("a")

    def start(self):
        command = [sys.executable, "-m", "barnabas.cli.main", "up"]
        command += ["--data-dir", str(self.home / "data"), "--listen", self.address]
        command += [word for line in GROUP_SETTINGS for word in ("--set", line)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        assert ready_line(self.process), "it ended before it was ready"

    def stop(self, number):
        self.process.send_signal(number)
        self.process.wait(TIMEOUT_S)
        self.process.stdout.close()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop(signal.SIGTERM)
        self.log.close()
        log = (self.home / "broker.log").read_text()
        assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]


def places(partitions):
    return sorted((p.topic, p.partition) for p in partitions)


def until(condition, *members):
    """Let every member poll in turn until it is so. A member keeps its place in the group without polling, too."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, [(m.owned, len(m.read), m.calls) for m in members]
        for member in members:
            member.poll(0.02)


def all_owned(topic, partitions, *members):
    """Every partition has an owner, and one only."""
    owned = sorted(place for member in members for place in member.owned)
    return owned == [(topic, p) for p in range(partitions)]


def produce(bootstrap, topic, values, partitions=1, **settings):
    """Write the values to the partitions in turn and wait until all are acknowledged."""
    producer, failed = ck.Producer({"bootstrap.servers": bootstrap} | settings), []
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            partition=number % partitions,
            on_delivery=lambda error, _: error and failed.append(error),
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert failed == []


def create_topic(admin, name, partitions):
    admin.create_topics([cka.NewTopic(name, partitions)])[name].result(TIMEOUT_S)
    deadline = time.monotonic() + TIMEOUT_S
    while name not in admin.list_topics(timeout=TIMEOUT_S).topics:
        assert time.monotonic() < deadline
    return name


def shares(admin, group):
    """Client id -> how many partitions it has, as the coordinator says; nothing while there is no such group."""
    (future,) = admin.describe_consumer_groups([group], request_timeout=TIMEOUT_S).values()
    try:
        members = future.result(TIMEOUT_S).members
    except ck.KafkaException as refusal:
        if refusal.args[0].code() not in NOT_YET:
            raise
        return {}
    return {member.client_id: len(member.assignment.topic_partitions) for member in members}


def committed(admin, group, topic, partitions):
    asked = ck.ConsumerGroupTopicPartitions(
        group, [ck.TopicPartition(topic, partition) for partition in range(partitions)]
    )
    (future,) = admin.list_consumer_group_offsets([asked], request_timeout=TIMEOUT_S).values()
    return [found.offset for found in future.result(TIMEOUT_S).topic_partitions]
