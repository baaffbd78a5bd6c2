"""Secrets stay secret: everything that a broker says is searched for them, at the log level that says most."""

import re
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
import security_kit
from compat.test_cli import Tool
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from process_kit import ready_line

TIMEOUT_S = 30
WRONG = "wrong-hush-5"
DYNAMIC = "dynamic-hush-6"
ZOOKEEPER = "zookeeper-hush-8"


class Told:
    """All that came out of a broker, and out of what asked it."""

    def __init__(self):
        self.texts = {}

    def add(self, place, text):
        assert text, f"{place} said nothing: nothing was tested"
        self.texts[place] = self.texts.get(place, "") + str(text)

    def check(self, secrets):
        for name, secret in secrets.items():
            assert len(secret) >= 8, name
            for place, text in self.texts.items():
                assert secret not in text, f"{name} is told by {place}"


@pytest.fixture
def files(tmp_path):
    files = security_kit.make_certificates(tmp_path)
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    pem = files.server.read_bytes()
    bundle = security_kit.bundle(
        load_pem_private_key(pem, None),
        x509.load_pem_x509_certificate(pem),
        security_kit.KEY_PASSWORD,
    )
    files.server.write_bytes(bundle)
    return files


def login(address, mechanism, password):
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
        "log_level": 0,
    }


def log_in_wrongly(told, settings):
    errors = []
    producer = Producer({**settings, "error_cb": errors.append})
    deadline = time.monotonic() + TIMEOUT_S
    while not errors:
        producer.poll(0.1)
        assert time.monotonic() < deadline
    told.add("a refused login", [one.str() for one in errors])


def change_settings(told, admin):
    """Change a password while the broker runs, well and badly."""
    name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    for text in (f'x.P required user_alice="{DYNAMIC}";', f"nonsense {DYNAMIC}"):
        entry = ConfigEntry(name, text, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        for done in admin.incremental_alter_configs([resource]).values():
            try:
                done.result(TIMEOUT_S)
            except Exception as problem:  # noqa: BLE001 (whatever it says is looked at)
                told.add("a refused setting", problem)
    assert "a refused setting" in told.texts


def describe(told, admin):
    resource = ConfigResource(ResourceType.BROKER, "1")
    entries = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    shown = {name: (entry.value, entry.synonyms) for name, entry in entries.items()}
    assert shown["listener.name.sasl_plaintext.plain.sasl.jaas.config"][0] is None
    synonyms = [(one.name, one.value) for _, found in shown.values() for one in found.values()]
    told.add("DescribeConfigs", f"{shown} {synonyms}")


def test_nothing_tells_a_secret(tmp_path, files):
    told, tokens = Told(), security_kit.Tokens(files.folder)
    token = tokens.make("alice", aud="somebody else")
    settings = security_kit.all_listeners(files, tokens) | {
        "ssl.key.password": security_kit.KEY_PASSWORD,
        "zookeeper.digest.credentials": f"broker:{ZOOKEEPER}",
    }
    config = tmp_path / "server.properties"
    config.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    log_path = tmp_path / "broker.log"
    command = [sys.executable, "-m", "barnabas.cli.main", "up", "--config", str(config), "--data-dir",
               str(tmp_path / "data"), "--metrics", "127.0.0.1:0", "--log-level", "debug"]  # fmt: skip
    with log_path.open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            line = ready_line(process)
            assert line is not None, log_path.read_text()
            names = [part.split("://")[0] for part in settings["listeners"].split(",")]
            addresses = dict(zip(names, line.split()[-1].split(","), strict=True))
            told.add("the ready line", line)
            admin = AdminClient({"bootstrap.servers": addresses["PLAINTEXT"]})
            security_kit.make_scram_users(addresses["PLAINTEXT"])
            for mechanism in ("PLAIN", "SCRAM-SHA-256"):
                good = login(
                    addresses["SASL_PLAINTEXT"], mechanism, security_kit.PASSWORDS["alice"]
                )
                assert AdminClient(good).list_topics(timeout=TIMEOUT_S)
                log_in_wrongly(told, good | {"sasl.password": WRONG})
            oauth = {
                "sasl.mechanism": "OAUTHBEARER",
                "oauth_cb": lambda _: (token, time.time() + 500),
            }
            plain = {
                name: good[name] for name in ("bootstrap.servers", "security.protocol", "log_level")
            }
            log_in_wrongly(told, plain | oauth)
            change_settings(told, admin)
            describe(told, admin)
            tool = Tool(addresses["PLAINTEXT"], tmp_path)
            told.add("config get", tool("config", "get", "broker", "1", "--all", "--synonyms").text)
            told.add("user list", tool("user", "list", "-o", "json").text)
            url = re.search(r"metrics at (\S+)", log_path.read_text())[1]
            told.add("metrics", urllib.request.urlopen(url, timeout=TIMEOUT_S).read().decode())
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(TIMEOUT_S)
            process.stdout.close()
    told.add("the log", log_path.read_text())
    stored = re.findall(
        rb"(?:salt|stored_key|server_key)=([\w+/]{20,})",
        (tmp_path / "data/barnabas.db").read_bytes(),
    )
    assert stored
    secrets = {
        "a password": security_kit.PASSWORDS["alice"],
        "another password": security_kit.PASSWORDS["admin"],
        "a wrong password": WRONG,
        "a changed password": DYNAMIC,
        "the key's password": security_kit.KEY_PASSWORD,
        "ZooKeeper's password": ZOOKEEPER,
        "a token": token,
        "a token's signature": token.rpartition(".")[2],
        **{f"what is kept of a password ({n})": text.decode() for n, text in enumerate(stored)},
    }
    told.check(secrets)
