"""Who disturbs a load: topics are made again, settings and rights change, handshakes stop halfway, certificates are exchanged, leaders go.

Each is a thread that does its one thing again and again, and tells the ledger what clients could not be promised meanwhile.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time

from chaos.wire_kit import RawClient, split
from cluster_kit import wait_until
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from process_kit import end_thread
from security_kit import renew_server

from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.metadata import MetadataRequest

PATIENCE_S = 60


def now_ms():
    return time.time_ns() / 1e6


class Disturber:
    """A thread, while the block runs."""

    def __init__(self, pause_s):
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self._problem = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        #: How often it has disturbed.
        self.count = 0

    def once(self):
        raise NotImplementedError

    def restore(self):
        """Leave everything as it should be, before what was written is read."""

    def wait(self, seconds):
        """Wait, or less if it is to stop."""
        self._stopping.wait(seconds)

    def _run(self):
        try:
            while not self._stopping.wait(self._pause_s):
                self.once()
                self.count += 1
            self.restore()
        except Exception as problem:  # noqa: BLE001  (told to who ends the block)
            self._problem = problem

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, failure, *_):
        self._stopping.set()
        end_thread(self._thread, type(self).__name__, 2 * PATIENCE_S)
        if failure is None and self._problem is not None:
            raise self._problem

    def __str__(self):
        return f"{self.count} {type(self).__name__}"


class TopicsMadeAgain(Disturber):
    """Delete a topic and make it again under its name."""

    def __init__(self, clients, bootstrap, topics, partitions, pause_s=0.7):
        super().__init__(pause_s)
        self._clients = clients
        self._raw = RawClient(bootstrap)
        self._topics = topics
        self._partitions = partitions

    def once(self):
        topic = self._topics[self.count % len(self._topics)]
        since_ms = now_ms()
        deletion = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=topic)], timeout_ms=PATIENCE_S * 1000
        )
        assert self._raw.ask(deletion, 6).responses[0].error_code == 0
        assert self._raw.create_topic(topic, self._partitions).error_code == 0
        with self._clients.lock:
            self._clients.ledger.reborn(topic, since_ms, now_ms())

    def __exit__(self, *failure):
        try:
            super().__exit__(*failure)
        finally:
            self._raw.socket.close()


class SettingsChanged(Disturber):
    """Give topics other settings: such as make the broker compress again, and such as only close what was bound to the old ones."""

    CHANGES = (
        ("compression.type", "zstd"), ("retention.ms", "999999999"), ("compression.type", "producer"),
        ("flush.messages", "100"), ("flush.messages", "9223372036854775807"),
    )  # fmt: skip

    def __init__(self, settings, topics, pause_s=0.3):
        super().__init__(pause_s)
        self._admin = AdminClient(settings)
        self._topics = topics

    def once(self):
        name, value = self.CHANGES[self.count % len(self.CHANGES)]
        topic = self._topics[self.count // len(self.CHANGES) % len(self._topics)]
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        for done in self._admin.incremental_alter_configs([resource]).values():
            done.result(PATIENCE_S)


class RightsRevoked(Disturber):
    """Take from a user the right to write to a topic, and give it back."""

    def __init__(self, clients, settings, user, names, topic, pause_s=0.5):
        super().__init__(pause_s)
        self._clients = clients
        self._admin = AdminClient(settings)
        self._names, self._topic = names, topic
        self._right = (
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*",
            AclOperation.WRITE, AclPermissionType.ALLOW,
        )  # fmt: skip

    def grant(self):
        for done in self._admin.create_acls([AclBinding(*self._right)]).values():
            done.result(PATIENCE_S)

    def once(self):
        for done in self._admin.delete_acls([AclBindingFilter(*self._right)]).values():
            assert done.result(PATIENCE_S)
        since_ms = now_ms()
        self.wait(self._pause_s)
        until_ms = now_ms()
        self.grant()
        with self._clients.lock:
            for name in self._names:
                self._clients.ledger.denied(name, self._topic, since_ms, until_ms)


def give_rights(settings, user, operations, kind, name="*"):
    """Let a user do this, for good."""
    pattern = ResourcePatternType.LITERAL
    allowed = [
        AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
        for operation in operations
    ]
    admin = AdminClient(settings)
    for done in admin.create_acls(allowed).values():
        done.result(PATIENCE_S)


class HalfHandshakes(Disturber):
    """Begin a TLS handshake and leave it: some close, some stay silent for a while, some say what is no TLS."""

    #: The beginning of a ClientHello: 512 bytes are announced.
    BEGINNING = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(20)
    SILENT_MAX = 20

    def __init__(self, address, rng, pause_s=0.02):
        super().__init__(pause_s)
        self._address = split(address)
        self._rng = rng
        self._silent = []

    def once(self):
        with contextlib.suppress(OSError):
            sock = socket.create_connection(self._address, PATIENCE_S)
            said = self._rng.choice(
                (self.BEGINNING, self.BEGINNING[:3], b"GET / HTTP/1.0\r\n\r\n", b"")
            )
            sock.sendall(said)
            self._silent.append(sock)
            if len(self._silent) > self.SILENT_MAX:
                self._silent.pop(self._rng.randrange(len(self._silent))).close()

    def restore(self):
        while self._silent:
            self._silent.pop().close()


class CertificatesExchanged(Disturber):
    """Give the broker another certificate, and connect by TLS to have it look."""

    def __init__(self, files, address, tls, pause_s=0.5):
        super().__init__(pause_s)
        self._files, self._address, self._tls = files, address, tls

    def once(self):
        renew_server(self._files, "localhost")
        with RawClient(self._address) as raw:
            raw.socket = self._tls.wrap_socket(raw.socket, server_hostname="127.0.0.1")
            raw.ask(MetadataRequest(topics=[]), 9)


class LeadersGone(Disturber):
    """Kill, stop or stop for a while one broker of a cluster; go on when all is well again."""

    def __init__(self, cluster, topics, rng, pause_s=2.0):
        super().__init__(pause_s)
        self._cluster, self._topics, self._rng = cluster, topics, rng

    def once(self):
        cluster, rng = self._cluster, self._rng
        victim = rng.choice(list(cluster.brokers))
        fate = rng.choice((cluster.kill, cluster.stop, cluster.pause))
        fate(victim)
        if fate == cluster.pause:
            self.wait(rng.choice((0.5, 6)))
            cluster.resume(victim)
        else:
            self.wait(1)
            cluster.start(victim)
        for topic in self._topics:
            wait_until(
                lambda topic=topic: cluster.is_healthy(topic), f"{topic} is healthy", 2 * PATIENCE_S
            )


def make_topics(settings, topics, replicas=1, **configs):
    """Create topics; their names and numbers of partitions."""
    admin = AdminClient(settings)
    new = [
        NewTopic(
            name,
            count,
            replicas,
            config={key.replace("_", "."): str(value) for key, value in configs.items()},
        )
        for name, count in topics.items()
    ]
    for done in admin.create_topics(new).values():
        done.result(PATIENCE_S)


def drop_topics(settings, topics):
    """Delete topics that were read."""
    admin = AdminClient(settings)
    for done in admin.delete_topics(list(topics), operation_timeout=PATIENCE_S).values():
        with contextlib.suppress(KafkaException):
            done.result(PATIENCE_S)
