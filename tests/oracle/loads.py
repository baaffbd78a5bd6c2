"""Whole loads: clients of every library, who disturbs them, and the verdict. One round has topics and a ledger of its own, and so bounded memory.

A load is drawn from a seed. The same seed draws the same clients and disturbances; when which of them is served differs from run to run.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import time

from confluent_kafka.admin import AclOperation, ResourceType
from oracle.audit import audit_all
from oracle.clients import PYTHON, Clients
from oracle.disturbers import (
    CertificatesExchanged,
    HalfHandshakes,
    LeadersGone,
    RightsRevoked,
    SettingsChanged,
    TopicsMadeAgain,
    drop_topics,
    give_rights,
    make_topics,
)
from oracle.jobs import Job
from oracle.ledger import Ledger, verdict
from oracle.plan import KINDS, LANES, SIMPLE, STAYING, draw
from oracle.shapes import client_tls

log = logging.getLogger(__name__)

LOOK_S = 0.05
#: What a broker logs when it has found a fault of its own, or was sent what no client of this load sends.
BROKEN = ("Traceback", "was still in use after its end", "a frame claims", "closing: a fault")
LANE_TOPICS = ("eu", "us", "af", "oc")
ALICE, BOB = "alice", "bob"
PASSWORDS = {ALICE: "alice-hush-2", BOB: "bob-hush-3"}
CLIENT = {"log_level": 0, "metadata.recovery.strategy": "none"}


def drawn_seed():
    """The seed that was asked for, or any."""
    return int(os.environ.get("ORACLE_SEED") or random.SystemRandom().randrange(1 << 32))


def one_round(jobs, disturbers_of, folder, seconds, settings, *, seed, may_give_up=False):
    """Let the clients send for a while, and judge. `jobs`: a command and its clients, for each library; returns what to tell of it."""
    ledger = Ledger()
    folder.mkdir(exist_ok=True)
    began_s = time.monotonic()
    clients = Clients(ledger, jobs, folder, may_give_up=may_give_up)
    with clients:
        with contextlib.ExitStack() as stack:
            disturbers = [stack.enter_context(each) for each in disturbers_of(clients)]
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and not clients.are_done:
                time.sleep(LOOK_S)
        clients.stop()
        sent_s, reads_s = time.monotonic() - began_s, time.monotonic()
        found = verdict(audit_all(ledger, settings))
        assert found is None, f"ORACLE_SEED={seed}: {found}"
    reads_s = time.monotonic() - reads_s
    troubles = {name: why for name, why in clients.ended.items() if why != "done"}
    faults = ", ".join(map(str, disturbers))
    return f"{ledger.figures} in {sent_s:.0f} and {reads_s:.0f} s; {faults}{f'; gave up: {troubles}' if troubles else ''}"


def assert_unbroken(broker):
    """The broker itself has found nothing wrong, but what clients and disturbers ask for."""
    for line in broker.log.splitlines():
        assert not any(each in line for each in BROKEN), line


class Lanes:
    """A lone broker, and clients of librdkafka that each send bursts of gzip and then one record at a time to a topic of its own.

    The bursts are opened in the background beside requests that repeat.
    """

    def __init__(self, broker):
        self._bootstrap = broker.bootstrap
        self._settings = {"bootstrap.servers": broker.bootstrap, **CLIENT}

    def run(self, seed, folder, seconds, limit):
        """Run one round; what to tell of it."""
        # Names of one length: requests for them can be the same but for these few bytes.
        topics = {f"l{seed}-{name}": 1 for name in LANE_TOPICS}
        make_topics(self._settings, topics)
        jobs = [
            Job(
                f"lanes-{topic}", self._bootstrap, f"{topic}:0", seed=seed, codec="gzip", acks="1", retries=False,
                bursts=LANES, limit=limit,
            )
            for topic in topics
        ]  # fmt: skip
        drivers = [(PYTHON["confluent"], jobs)]
        told = one_round(drivers, lambda _: [], folder, seconds, self._settings, seed=seed)
        drop_topics(self._settings, topics)
        return told


class Plain:
    """A lone broker without security: topics are made again and have their settings changed."""

    SETTINGS = (
        "offsets.topic.num.partitions=2", "transaction.state.log.num.partitions=2", "auto.create.topics.enable=false",
    )  # fmt: skip

    def __init__(self, broker, commands):
        self._bootstrap = broker.bootstrap
        self._settings = {"bootstrap.servers": broker.bootstrap, **CLIENT}
        self._commands = commands

    def run(self, seed, folder, seconds, limit):
        """Run one round; what to tell of it."""
        rng = random.Random(seed)
        tag = f"p{seed}"
        calm = {f"{tag}-eu": 1, f"{tag}-us": 1, f"{tag}-as": 3}
        changed, reborn = {f"{tag}-ch": 2}, {f"{tag}-r1": 1, f"{tag}-r2": 1}
        topics = calm | changed | reborn
        make_topics(self._settings, topics)
        jobs = [
            (
                command,
                draw(rng, library, KINDS, places(calm | changed), limit, bootstrap=self._bootstrap)
                + draw(
                    rng,
                    library,
                    SIMPLE,
                    places(reborn),
                    limit,
                    "-reborn",
                    bootstrap=self._bootstrap,
                ),
            )
            for library, command in self._commands.items()
        ]
        told = one_round(jobs, lambda clients: [
            TopicsMadeAgain(clients, self._bootstrap, list(reborn), 1),
            SettingsChanged(self._settings, list(changed)),
        ], folder, seconds, self._settings, seed=seed)  # fmt: skip
        drop_topics(self._settings, topics)
        return told


class Secure:
    """A lone broker with TLS, logins and access rules: rights come and go, handshakes stop halfway, certificates are exchanged."""

    LISTEN = tuple(
        f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT")
    )

    @staticmethod
    def settings(files):
        users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
        jaas = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        return [
            *Plain.SETTINGS,
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "ssl.keystore.type=PEM", f"ssl.keystore.location={files.server}",
            "ssl.truststore.type=PEM", f"ssl.truststore.location={files.authority}",
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            f"listener.name.sasl_ssl.plain.sasl.jaas.config={jaas}",
            f"listener.name.sasl_plaintext.plain.sasl.jaas.config={jaas}",
            "authorizer.class.name=kafka.security.authorizer.AclAuthorizer", "super.users=User:ANONYMOUS",
        ]  # fmt: skip

    def __init__(self, broker, commands, files):
        self._plain, self._tls, self._sasl_tls, self._sasl = broker.addresses
        self._settings = {"bootstrap.servers": self._plain, **CLIENT}
        self._commands, self._files = commands, files
        write, describe = AclOperation.WRITE, AclOperation.DESCRIBE
        give_rights(self._settings, BOB, (write, describe), ResourceType.TOPIC)
        give_rights(self._settings, BOB, (write, describe), ResourceType.TRANSACTIONAL_ID)
        give_rights(self._settings, ALICE, (describe,), ResourceType.TOPIC)

    def _ways(self):
        """How clients connect: by TLS, by TLS with a login, by a login alone."""
        ca = str(self._files.authority)
        bob = {"user": BOB, "password": PASSWORDS[BOB]}
        return [
            {"bootstrap": self._tls, "ca": ca},
            {"bootstrap": self._sasl_tls, "ca": ca, "mechanism": "SCRAM-SHA-256", **bob},
            {"bootstrap": self._sasl_tls, "ca": ca, "mechanism": "PLAIN", **bob},
            {"bootstrap": self._sasl, "mechanism": "SCRAM-SHA-512", **bob},
        ]

    def run(self, seed, folder, seconds, limit):
        rng = random.Random(seed)
        tag = f"s{seed}"
        calm, denied = {f"{tag}-eu": 1, f"{tag}-us": 1, f"{tag}-as": 3}, {f"{tag}-no": 2}
        topics = calm | denied
        make_topics(self._settings, topics)
        jobs, names = [], []
        for library, command in self._commands.items():
            ours = []
            ways = self._ways()
            rng.shuffle(ways)
            for kind, way in zip(KINDS, [*ways, ways[0]], strict=True):
                ours += draw(rng, library, [kind], places(calm), limit, **way)
            alice = {**self._ways()[rng.randint(1, 2)], "user": ALICE, "password": PASSWORDS[ALICE]}
            ours += draw(
                rng, library, SIMPLE, places(denied), limit, "-denied", pause_ms=10, **alice
            )
            names += [job.client for job in ours if job.user == ALICE]
            jobs.append((command, ours))
        (topic,) = denied
        give_rights(self._settings, ALICE, (AclOperation.WRITE,), ResourceType.TOPIC, topic)
        told = one_round(jobs, lambda clients: [
            RightsRevoked(clients, self._settings, ALICE, names, topic),
            HalfHandshakes(self._tls, rng),
            CertificatesExchanged(self._files, self._tls, client_tls(self._files)),
        ], folder, seconds, self._settings, seed=seed)  # fmt: skip
        drop_topics(self._settings, topics)
        return told


class Clustered:
    """Three brokers, of which one after the other is killed, stopped or asleep."""

    SETTINGS = (
        *Plain.SETTINGS, "replica.lag.time.max.ms=2000", "offsets.topic.replication.factor=3",
        "transaction.state.log.replication.factor=3", "transaction.state.log.min.isr=2",
    )  # fmt: skip

    def __init__(self, cluster, commands):
        self._cluster, self._commands = cluster, commands

    def run(self, seed, folder, seconds, limit):
        rng = random.Random(seed)
        settings = {"bootstrap.servers": self._cluster.bootstrap, **CLIENT}
        topics = {f"c{seed}-eu": 1, f"c{seed}-us": 1, f"c{seed}-as": 3}
        for name, count in topics.items():
            assignment = [rng.sample((1, 2, 3), 3) for _ in range(count)]
            self._cluster.create(name, assignment, min_insync_replicas=2)
        jobs = []
        for library, command in self._commands.items():
            staying = draw(rng, library, STAYING, places(topics), limit, **self._options)
            others = [kind for kind in KINDS if kind not in STAYING]
            jobs.append(
                (
                    command,
                    staying
                    + draw(
                        rng, library, others, places(topics), limit, keeps=False, **self._options
                    ),
                )
            )
        told = one_round(
            jobs, lambda _: [LeadersGone(self._cluster, list(topics), rng)], folder, seconds, settings,
            seed=seed, may_give_up=True,
        )  # fmt: skip
        drop_topics(settings, topics)
        return told

    @property
    def _options(self):
        return {"bootstrap": self._cluster.bootstrap, "pause_ms": 20}


def places(topics):
    return [f"{name}:{index}" for name, count in topics.items() for index in range(count)]
