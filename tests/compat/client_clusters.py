"""One broker with a listener of every kind, ours or Apache Kafka's: for our own client, which must not see a difference."""

import contextlib
from dataclasses import dataclass

from cluster_kit import wait_until
from compat.apache_kafka import RELEASE, Kafka, free_ports
from confluent_kafka.admin import AdminClient, NewTopic
from security_kit import (
    PASSWORDS,
    Certificates,
    Tokens,
    all_listeners,
    make_certificates,
    make_scram_users,
)

import barnabas
from barnabas.client.settings import ClientSettings
from barnabas.runtime.blocking_client import BlockingClient

NAMES = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "MUTUAL")
PATIENT = {"default.api.timeout.ms": "60000", "request.timeout.ms": "30000"}


@dataclass
class Listeners:
    """Addresses by listener, and what it takes to get in."""

    kind: str
    addresses: dict[str, str]
    files: Certificates
    tokens: Tokens

    def settings(self, listener="PLAINTEXT", **more):
        """The client's settings for a listener; `_` in names stands for a dot."""
        names = {name.replace("_", "."): value for name, value in more.items()}
        protocol = "SSL" if listener == "MUTUAL" else listener
        given = {"bootstrap.servers": self.addresses[listener], "security.protocol": protocol}
        if protocol.endswith("SSL"):
            given["ssl.ca.location"] = str(self.files.authority)
        return ClientSettings.parse({**PATIENT, **given, **names})

    def client(self, listener="PLAINTEXT", **more):
        return BlockingClient(self.settings(listener, **more))

    def create(self, topic, partitions=1, **config):
        """Make a topic, and wait until the broker tells of it: Kafka's does a moment later."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        settings["retention.ms"] = "-1"  # times in tests are of 1970
        admin = AdminClient({"bootstrap.servers": self.addresses["PLAINTEXT"]})
        made = admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])
        made[topic].result(60)
        wait_until(lambda: topic in admin.list_topics(timeout=60).topics, f"{topic} is there")
        return topic


@contextlib.contextmanager
def barnabas_listeners(home):
    files, tokens = make_certificates(home), Tokens(home)
    settings = {
        **all_listeners(files, tokens),
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.num.partitions": 3,
        # Tests write records of years ago: nobody looks for old ones while they run.
        "log.initial.task.delay.ms": 86_400_000,
    }
    with barnabas.Broker(settings=settings) as broker:
        addresses = {name: f"{host}:{port}" for name, host, port in broker._broker.addresses}
        make_scram_users(addresses["PLAINTEXT"])
        yield Listeners("barnabas", addresses, files, tokens)


@contextlib.contextmanager
def kafka_listeners(home, release=RELEASE):
    files, tokens = make_certificates(home), Tokens(home)
    settings = all_listeners(files, tokens)
    for name in [each for each in settings if "oauthbearer" in each]:
        del settings[name]
    settings["sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
    for listener in ("sasl_plaintext", "sasl_ssl"):
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            settings[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            )
    *ports, controller = free_ports(len(NAMES) + 1)
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(NAMES, ports, strict=True)}
    shown = ",".join(f"{name}://{address}" for name, address in addresses.items())
    settings["listeners"] = f"{shown},CONTROLLER://127.0.0.1:{controller}"
    settings["advertised.listeners"] = shown
    settings["controller.quorum.voters"] = f"1@127.0.0.1:{controller}"
    settings["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
    settings["offsets.topic.num.partitions"] = settings["transaction.state.log.num.partitions"] = (
        "3"
    )
    lines = [f"{name}={value}" for name, value in settings.items()]
    kafka = Kafka(home, *lines, release=release)
    kafka.port = ports[0]
    with kafka:
        kafka.wait_ready()
        make_scram_users(addresses["PLAINTEXT"])
        yield Listeners("kafka", addresses, files, tokens)


__all__ = ["PASSWORDS", "Listeners", "barnabas_listeners", "kafka_listeners"]
