"""Real clients on a broker with a listener of every kind: TLS, certificates of clients, and each login mechanism."""

import asyncio
import json
import ssl
import subprocess
import time

import aiokafka
import aiokafka.abc
import kafka
import pytest
import security_kit
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.net.sasl.oauth import AbstractTokenProvider

import barnabas

TIMEOUT_S = 60
TOPIC = "logins"
CONFIGS = "kafka.admin.ConfigCommand"
#: Listener and mechanism.
WAYS = [
    ("SSL", None),
    ("MUTUAL", None),
    *(
        (listener, one)
        for listener in ("SASL_PLAINTEXT", "SASL_SSL")
        for one in security_kit.MECHANISMS
    ),
]
IDS = [f"{listener}-{mechanism or 'certificate'}" for listener, mechanism in WAYS]
every_way = pytest.mark.parametrize(("listener", "mechanism"), WAYS, ids=IDS)
MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}


class Home:
    """The broker, and what clients need to know of it."""

    def __init__(self, broker, files, tokens):
        self.broker = broker
        self.files = files
        self.tokens = tokens
        self.password = security_kit.PASSWORDS["alice"]
        self.token_file = files.folder / "token"
        self.token_file.write_text(tokens.make("alice", lifetime_s=7200))

    def tls(self, listener):
        """Tell whether a listener speaks TLS."""
        return listener != "SASL_PLAINTEXT"

    def protocol(self, listener):
        return "SSL" if listener == "MUTUAL" else listener


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    files = security_kit.make_certificates(tmp_path_factory.mktemp("certificates"))
    tokens = security_kit.Tokens(files.folder)
    with barnabas.Broker(settings=security_kit.all_listeners(files, tokens)) as broker:
        security_kit.make_scram_users(broker.bootstrap)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(TIMEOUT_S)
        yield Home(broker, files, tokens)


# librdkafka


def librdkafka(home, listener, mechanism, password=None):
    settings = {
        "bootstrap.servers": home.broker.bootstrap_of(listener),
        "security.protocol": home.protocol(listener),
        "log_level": 0,
    }
    if home.tls(listener):
        settings["ssl.ca.location"] = str(home.files.authority)
    if listener == "MUTUAL":
        settings["ssl.certificate.location"] = str(home.files.client_certificate)
        settings["ssl.key.location"] = str(home.files.client_key)
    if mechanism == "OAUTHBEARER":
        token = home.tokens.make("alice") if password is None else password
        settings["sasl.mechanism"] = mechanism
        settings["oauth_cb"] = lambda _: (token, time.time() + 500)
    elif mechanism:
        settings |= {
            "sasl.mechanism": mechanism,
            "sasl.username": "alice",
            "sasl.password": password or home.password,
        }
    return settings


@every_way
def test_librdkafka(home, listener, mechanism):
    settings = librdkafka(home, listener, mechanism)
    offsets = []
    producer = Producer({**settings, "message.timeout.ms": TIMEOUT_S * 1000})
    producer.produce(
        TOPIC,
        b"x" * 500_000,
        on_delivery=lambda error, sent: offsets.append(error or sent.offset()),
    )
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({**settings, "group.id": "g"})
    consumer.assign([TopicPartition(TOPIC, 0, offsets[0])])
    record = consumer.poll(TIMEOUT_S)
    assert (record.error(), len(record.value())) == (None, 500_000)
    consumer.close()


@pytest.mark.parametrize("mechanism", security_kit.MECHANISMS)
def test_librdkafka_is_told_of_a_wrong_password(home, mechanism):
    errors = []
    settings = librdkafka(home, "SASL_SSL", mechanism, "wrong.wrong.wrong")
    producer = Producer({**settings, "error_cb": errors.append})
    deadline = time.monotonic() + TIMEOUT_S
    while not any(one.code() == KafkaError._AUTHENTICATION for one in errors):
        producer.poll(0.1)
        assert time.monotonic() < deadline, errors
    assert "wrong" not in "".join(one.str() for one in errors)


# kafka-python


class KafkaPythonToken(AbstractTokenProvider):
    def __init__(self, token):
        self._token = token

    def token(self):
        return self._token


def kafka_python(home, listener, mechanism):
    settings = {
        "bootstrap_servers": home.broker.bootstrap_of(listener),
        "security_protocol": home.protocol(listener),
    }
    if home.tls(listener):
        settings["ssl_cafile"] = str(home.files.authority)
    if listener == "MUTUAL":
        settings["ssl_certfile"] = str(home.files.client_certificate)
        settings["ssl_keyfile"] = str(home.files.client_key)
    if mechanism == "OAUTHBEARER":
        provider = KafkaPythonToken(home.tokens.make("alice"))
        settings |= {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": provider}
    elif mechanism:
        settings |= {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice",
            "sasl_plain_password": home.password,
        }
    return settings


@every_way
def test_kafka_python(home, listener, mechanism):
    settings = kafka_python(home, listener, mechanism)
    producer = kafka.KafkaProducer(**settings)
    offset = producer.send(TOPIC, b"kafka-python").get(TIMEOUT_S).offset
    producer.close()
    consumer = kafka.KafkaConsumer(**settings, consumer_timeout_ms=TIMEOUT_S * 1000)
    place = kafka.TopicPartition(TOPIC, 0)
    consumer.assign([place])
    consumer.seek(place, offset)
    assert next(consumer).value == b"kafka-python"
    consumer.close()


# aiokafka


class AioToken(aiokafka.abc.AbstractTokenProvider):
    def __init__(self, token):
        self._token = token

    async def token(self):
        return self._token


def aio(home, listener, mechanism):
    settings = {
        "bootstrap_servers": home.broker.bootstrap_of(listener),
        "security_protocol": home.protocol(listener),
    }
    if home.tls(listener):
        context = ssl.create_default_context(cafile=home.files.authority)
        if listener == "MUTUAL":
            context.load_cert_chain(home.files.client)
        settings["ssl_context"] = context
    if mechanism == "OAUTHBEARER":
        provider = AioToken(home.tokens.make("alice"))
        settings |= {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": provider}
    elif mechanism:
        settings |= {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice",
            "sasl_plain_password": home.password,
        }
    return settings


@every_way
def test_aiokafka(home, listener, mechanism):
    async def scenario():
        settings = aio(home, listener, mechanism)
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            sent = await producer.send_and_wait(TOPIC, b"aiokafka", partition=0)
        async with aiokafka.AIOKafkaConsumer(**settings) as consumer:
            place = aiokafka.TopicPartition(TOPIC, 0)
            consumer.assign([place])
            consumer.seek(place, sent.offset)
            assert (await consumer.getone()).value == b"aiokafka"

    asyncio.run(asyncio.wait_for(scenario(), TIMEOUT_S))


# franz-go


def test_franz_go(home, franz, tmp_path):
    ways = []
    for name, (listener, mechanism) in zip(IDS, WAYS, strict=True):
        way = {
            "Name": name,
            "Bootstrap": home.broker.bootstrap_of(listener),
            "Mechanism": mechanism or "",
        }
        way |= {"User": "alice", "Password": home.password, "Token": home.tokens.make("alice")}
        if home.tls(listener):
            way["Authority"] = str(home.files.authority)
        if listener == "MUTUAL":
            way |= {
                "Certificate": str(home.files.client_certificate),
                "Key": str(home.files.client_key),
            }
        ways.append(way)
    file = tmp_path / "ways.json"
    file.write_text(json.dumps(ways))
    command = [str(franz), home.broker.bootstrap, TOPIC, "logins", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == IDS


# Java


def java_properties(home, listener, mechanism, password=None):
    settings = {
        "bootstrap.servers": home.broker.bootstrap_of(listener),
        "security.protocol": home.protocol(listener),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": home.files.authority,
    }
    if listener == "MUTUAL":
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": home.files.client}
    if mechanism == "OAUTHBEARER":
        settings |= {
            "sasl.jaas.config": f"{MODULES[mechanism]} required;",
            "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": home.token_file.as_uri(),
        }
    elif mechanism:
        secret = password or home.password
        settings["sasl.jaas.config"] = (
            f'{MODULES[mechanism]} required username="alice" password="{secret}";'
        )
    if mechanism:
        settings["sasl.mechanism"] = mechanism
    return settings


def write_properties(path, settings):
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


@pytest.mark.java
@pytest.mark.parametrize("release", ["4.3.1", "3.9.2"])
def test_java(home, java, tmp_path, release):
    paths = [
        write_properties(tmp_path / name, {"client.id": name, **java_properties(home, *way)})
        for name, way in zip(IDS, WAYS, strict=True)
    ]
    wrong = [
        write_properties(
            tmp_path / f"wrong-{one}",
            {"client.id": "w", **java_properties(home, "SASL_SSL", one, "no")},
        )
        for one in ("PLAIN", "SCRAM-SHA-512")
    ]
    done = java.run(release, TOPIC, home.token_file.as_uri(), *paths, *wrong, program="Logins")
    assert done.returncode == 0, done.stderr
    told = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
    outcomes = dict(told)
    assert outcomes == {
        **dict.fromkeys(IDS, "ok"),
        "wrong-PLAIN": "SaslAuthenticationException",
        "wrong-SCRAM-SHA-512": "SaslAuthenticationException",
    }


@pytest.mark.java
def test_kafka_configs_makes_and_takes_scram_users(home, kafka_tool, tmp_path):
    server = [
        "--bootstrap-server",
        home.broker.bootstrap,
        "--entity-type",
        "users",
        "--entity-name",
        "carol",
    ]
    password = "SCRAM-SHA-256=[iterations=8192,password=carol-hush-3]"
    kafka_tool(CONFIGS, *server, "--alter", "--add-config", password)
    assert "SCRAM-SHA-256=iterations=8192" in kafka_tool(CONFIGS, *server, "--describe").stdout
    settings = librdkafka(home, "SASL_PLAINTEXT", "SCRAM-SHA-256", "carol-hush-3") | {
        "sasl.username": "carol"
    }
    assert AdminClient(settings).list_topics(timeout=TIMEOUT_S).topics
    kafka_tool(CONFIGS, *server, "--alter", "--delete-config", "SCRAM-SHA-256")
    assert "iterations" not in kafka_tool(CONFIGS, *server, "--describe").stdout
