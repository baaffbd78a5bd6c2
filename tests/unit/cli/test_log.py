"""`barnabas log`: from a directory on the real disk to what a person sees."""

import json

import pytest
from click.testing import CliRunner

from barnabas.broker import group_records
from barnabas.cli.main import cli
from barnabas.core.group import records as kinds
from barnabas.model.config import build_log_config
from barnabas.runtime.directory_lock import lock_directory
from barnabas.runtime.disk import RealDisk
from barnabas.storage import checkpoints, partition_metadata
from barnabas.storage.log import Log
from barnabas.wire.batch import Record, build, read_header

NOW = 1_700_000_000_000
LOG = "00000000000000000000.log"


def write(folder, batches):
    disk = RealDisk()
    log = Log.open(disk, str(folder), build_log_config({}), now_ms=NOW, clean=True)
    for batch in batches:
        view = memoryview(batch)
        log.append(view, read_header(view), 0, NOW)
    log.close(clean=True)
    disk.close()
    (folder / "partition.metadata").write_bytes(partition_metadata.encode(bytes(range(16))))


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "orders-0"
    folder.mkdir()
    write(folder, [build([Record(0, NOW, b"k%d" % n, b"\xff\x00%d" % n)]) for n in range(3)])
    (tmp_path / ".kafka_cleanshutdown").touch()
    (tmp_path / "meta.properties").write_text("version=0\n")
    return tmp_path


def run(*words, code=0):
    result = CliRunner().invoke(cli, list(map(str, words)))
    assert result.exit_code == code, result.output
    return result


def invoke(*words):
    """Run a command whose exit code is what it returns."""
    return CliRunner().invoke(cli, list(map(str, words)), standalone_mode=False)


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def test_verify_of_a_whole_directory(data):
    done = invoke("log", "verify", data)
    assert done.return_value == 0
    assert "1 partition, 1 segment, 3 records" in done.output
    assert "no damage" in done.output


@pytest.mark.parametrize("path", ["", "orders-0", f"orders-0/{LOG}"])
def test_verify_names_the_damage(data, path):
    flip(data / "orders-0" / LOG, 70)
    done = invoke("log", "verify", data / path, "-o", "json")
    assert done.return_value == 1
    (finding,) = json.loads(done.output)["findings"]
    assert (finding["topic"], finding["partition"]) == ("orders", 0)
    assert (finding["first_offset"], finding["last_offset"]) == (0, 0)
    assert finding["severity"] == "damage"
    shown = invoke("log", "verify", data / path).output
    assert f"orders-0/{LOG}" in shown
    assert "wrong checksum" in shown


def test_verify_of_what_is_no_log(data):
    assert (
        "no log file" in run("log", "verify", data / "orders-0/partition.metadata", code=1).output
    )


def test_verify_beside_a_broker_says_so_and_goes_on(data):
    lock = lock_directory(str(data))
    done = invoke("log", "verify", data)
    lock.release()
    assert done.return_value == 0
    assert "a broker is running" in done.output


def test_checkpoints_and_ids_are_looked_at(data):
    (data / checkpoints.RECOVERY_POINTS).write_bytes(b"0\n1\norders 0 9\n")
    done = invoke("log", "verify", data, "-o", "json")
    (finding,) = json.loads(done.output)["findings"]
    assert finding["file"].endswith(checkpoints.RECOVERY_POINTS)
    assert finding["first_offset"] is finding["last_offset"] is None


def test_dump_shows_batches_and_records(data):
    lines = run("log", "dump", data / "orders-0" / LOG, "--records").output.splitlines()
    assert lines[1].startswith("batch base_offset=0 last_offset=0 records=1 position=0")
    assert "producer_id" not in lines[1]
    assert lines[2] == f'  record offset=0 timestamp={NOW} key="k0" value="\\xff\\x000"'
    assert len(lines) == 7
    assert len(run("log", "dump", data / "orders-0" / LOG, "--limit", 2).output.splitlines()) == 3


def test_dump_as_json_lines(data):
    lines = run("log", "dump", data, "--records", "-o", "json").output.splitlines()
    found = [json.loads(line) for line in lines]
    assert [row["kind"] for row in found[:3]] == ["meta_properties", "batch", "record"]
    assert found[2]["value"] == {"base64": "/wAw"}
    assert {row["kind"] for row in found} == {
        "meta_properties", "batch", "record", "time_entry", "leader_epoch", "partition_metadata",
    }  # fmt: skip


def test_dump_reads_the_records_of_groups(tmp_path):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    commit = kinds.OffsetCommitted("readers", "orders", 0, 42, -1, "", NOW)
    removed = kinds.OffsetRemoved("readers", "orders", 1)
    pairs = [group_records.encode(commit), group_records.encode(removed), (b"\x00\x63", b"?")]
    write(folder, [build([Record(n, NOW, *pair) for n, pair in enumerate(pairs)])])
    shown = run("log", "dump", folder / LOG, "--records").output
    assert "OffsetCommit offset=0" in shown
    assert "key={group=readers topic=orders partition=0}" in shown
    assert "value={offset=42" in shown
    assert "value=-" in shown
    rows = [
        json.loads(line)
        for line in run("log", "dump", folder / LOG, "--records", "-o", "json").output.splitlines()
    ]
    assert rows[1]["decoded"]["value"]["offset"] == 42
    assert "decoded" not in rows[3]


def test_dump_of_damaged_and_foreign_files(data):
    (data / "orders-0/leader-epoch-checkpoint").write_text("nonsense")
    assert "damage reason=" in run("log", "dump", data / "orders-0/leader-epoch-checkpoint").output
    (data / "other").touch()
    assert "no file that a log directory has" in run("log", "dump", data / "other", code=1).output


def test_repair_shows_its_plan_and_asks(data):
    flip(data / "orders-0" / LOG, 70)
    before = (data / "orders-0" / LOG).read_bytes()
    asked = run("log", "repair", data, code=1)
    assert "offsets 0-0 stay empty" in asked.output
    run("log", "repair", data, "--dry-run")
    assert (data / "orders-0" / LOG).read_bytes() == before
    done = run("log", "repair", data, "--yes", "-o", "json")
    assert '"action": "RewriteSegment"' in done.output
    assert invoke("log", "verify", data).return_value == 0
    assert [one.name for one in (data / "orders-0/quarantine").iterdir()] == [f"{LOG}.0-73.0"]
    assert "nothing to repair" in run("log", "repair", data, "--yes").output


def test_repair_refuses_what_is_not_its_own(data):
    lock = lock_directory(str(data))
    assert "a broker is running" in run("log", "repair", data, "--yes", code=1).output
    lock.release()
    assert "one partition" in run("log", "repair", data / "orders-0", "--yes", code=1).output
    assert "--dry-run" in run("log", "repair", data, "-o", "json", code=2).output
