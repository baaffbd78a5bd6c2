"""Commands that use a client of our own work over secured connections as over plain ones."""

import json
import subprocess
import sys

import pytest
from compat.client_clusters import PASSWORDS, barnabas_listeners


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    with barnabas_listeners(tmp_path_factory.mktemp("secured")) as listeners:
        yield listeners


def run(there, *words, password=PASSWORDS["admin"]):
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "admin",
        "sasl.password": password,
        "ssl.ca.location": str(there.files.authority),
        "socket.keepalive.enable": "true",
    }
    options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    command = [sys.executable, "-m", "barnabas.cli.main", *words]
    command += ["--bootstrap", there.addresses["SASL_SSL"], *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_looking_at_a_cluster(there):
    done = run(there, "cluster", "describe", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["brokers"]) == 1


def test_looking_at_transactions(there):
    with there.client() as client:
        session = client.transactional_producer("secured-x")
        session.begin()
        session.abort()
    done = run(there, "txn", "list", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert "secured-x" in done.stdout


def test_a_wrong_password_is_one_sentence(there):
    done = run(there, "txn", "list", password="wrong-9")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "wrong-9" not in done.stderr
