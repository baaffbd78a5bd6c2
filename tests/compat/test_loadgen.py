"""The benchmark's load generator counts what the broker has, and does not overlook an error."""

import json
import shutil
import subprocess

import pytest
from bench import build
from bench.admin import Admin
from bench.frames import Batch, Place, write_fetch, write_produce

import barnabas

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "CACHE", tmp_path_factory.mktemp("cache"))
        yield build.loadgen()


@pytest.fixture
def places(port):
    with Admin(port) as admin:
        admin.make({"load": 3})
    return [Place("load", index) for index in range(3)]


@pytest.fixture
def port():
    with barnabas.Broker() as broker:
        yield int(broker.bootstrap.rpartition(":")[2])


def run(program, port, mode, **options):
    command = [program, mode, "--port", str(port)]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def drained(program, port, folder, places, records):
    fetch = write_fetch(folder / "all", [place._replace(first_offset=0) for place in places])
    done = run(program, port, "drain", fetch=fetch, records=records, seconds=60, connections=2)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "shape",
    [
        {"connections": 1, "depth": 1},
        {"connections": 5, "depth": 16},
        {"connections": 7, "depth": 2, "rate": 500},
    ],
    ids=str,
)
def test_every_request_that_is_counted_is_in_the_log(program, port, places, tmp_path, shape):
    file = write_produce(tmp_path / "produce", places, Batch(records=2))
    done = run(program, port, "requests", produce=file, seconds=0.3, **shape)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["records"] == 2 * found["requests"] > 0
    assert found["latency_us"]["count"] == found["requests"]
    if "rate" in shape:
        assert found["requests"] == 150
    latency = found["latency_us"]
    assert 0 < latency["p50"] <= latency["p99"] <= latency["p999"] <= latency["max"]
    read = drained(program, port, tmp_path, places, found["records"] + 3)
    assert read["records"] == 2 * (found["records"] + 3)


@pytest.mark.parametrize("producers", [1, 2])
def test_every_record_is_followed_to_its_reader(program, port, places, tmp_path, producers):
    options = {
        "produce": write_produce(tmp_path / "produce", places, Batch(records=10, value_size=50)),
        "fetch": write_fetch(tmp_path / "fetch", places),
    }
    done = run(program, port, "follow", rate=3000, seconds=0.5, producers=producers, **options)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["records"] == found["end_to_end_us"]["count"] == 1500
    assert found["produces"] == found["acknowledged_us"]["count"] == 150


def test_an_error_in_an_answer_ends_it(program, port, places, tmp_path):
    missing = write_produce(tmp_path / "produce", [Place("load", 99)], Batch())
    done = run(program, port, "requests", produce=missing, seconds=0.3)
    assert done.returncode == 1
    assert "error code 3" in done.stderr


def test_no_broker_is_said(program, places, tmp_path):
    file = write_produce(tmp_path / "produce", places, Batch())
    done = run(program, 1, "requests", produce=file)
    assert done.returncode == 1
    assert "cannot connect to 127.0.0.1:1" in done.stderr
