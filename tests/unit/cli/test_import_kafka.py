"""`barnabas import-kafka` on directories made by hand; tests/compat/test_moving.py has Apache Kafka's own."""

import json
import os

import pytest
from click.testing import CliRunner
from metadata_kit import ID_A, ID_B, setting, topic, write_log

import barnabas
from barnabas.broker.kafka_metadata import TOPIC
from barnabas.cli.main import cli
from barnabas.model.config import build_log_config
from barnabas.runtime.directory_lock import lock_directory
from barnabas.runtime.disk import RealDisk
from barnabas.storage import checkpoints, meta_properties, partition_metadata
from barnabas.storage.log import Log
from barnabas.storage.meta_properties import MetaProperties
from barnabas.wire.batch import Record, build, read_header

NOW = 1_700_000_000_000
CLUSTER = "cluster-for-tests"


@pytest.fixture
def source(tmp_path):
    root = tmp_path / "kafka"
    disk = RealDisk()
    for name, topic_id in (("orders-0", ID_A), ("orders-1", ID_A), ("other-0", ID_B)):
        (root / name).mkdir(parents=True)
        write_partition(disk, root / name, topic_id)
    settings = [setting(TOPIC, "orders", "retention.ms", "-1")]
    write_log(disk, str(root), topic("orders", ID_A, 3, 0), topic("other", ID_B, 0), settings)
    meta = MetaProperties(1, CLUSTER, 7, None)
    (root / "meta.properties").write_bytes(meta_properties.encode(meta))
    (root / ".kafka_cleanshutdown").write_bytes(b"{}")
    offsets = b"0\n2\norders 0 6\nother 0 6\n"
    (root / checkpoints.RECOVERY_POINTS).write_bytes(offsets)
    disk.close()
    return root


def write_partition(disk, folder, topic_id):
    settings = build_log_config({"segment.bytes": 200})
    log = Log.open(disk, str(folder), settings, now_ms=NOW, clean=True)
    for number in range(6):
        batch = memoryview(build([Record(0, NOW, b"k", b"%d" % number * 40)]))
        log.append(batch, read_header(batch), 0, NOW)
    log.close(clean=True)
    (folder / "partition.metadata").write_bytes(partition_metadata.encode(topic_id))
    (folder / "00000000000000000000.log.deleted").touch()


def run(*words, code=0):
    result = CliRunner().invoke(cli, ["import-kafka", *map(str, words)])
    assert result.exit_code == code, result.output
    return result.output


def report(*words):
    done = CliRunner().invoke(cli, ["import-kafka", *map(str, words), "-o", "json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def files(root):
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_a_copy_has_everything_and_the_source_stays(source, tmp_path):
    before, target = files(source), tmp_path / "new"
    shown = run(source, "--data-dir", target)
    assert "orders" in shown
    assert "retention.ms=-1" in shown
    assert files(source) == before
    copied = files(target)
    assert copied.pop("barnabas.db")
    assert {name for name in before if name not in copied} == {
        "meta.properties",
        *(name for name in before if name.startswith("__cluster_metadata") or "deleted" in name),
    }
    assert {name for name in copied if name in before and copied[name] != before[name]} == {
        ".kafka_cleanshutdown"
    }
    stamp = os.stat(source / "orders-0/00000000000000000000.log").st_mtime_ns
    assert os.stat(target / "orders-0/00000000000000000000.log").st_mtime_ns == stamp


def test_a_broker_takes_it(source, tmp_path):
    target = tmp_path / "new"
    run(source, "--data-dir", target)
    with barnabas.Broker(data_dir=str(target)):
        pass
    assert meta_properties.decode((target / "meta.properties").read_bytes()).cluster_id == CLUSTER
    assert (target / "orders-0/00000000000000000000.log").exists()
    assert not [path for path in target.iterdir() if "stray" in path.name]


def test_a_dry_run_changes_nothing(source, tmp_path):
    told = report(source, "--data-dir", tmp_path / "new", "--dry-run")
    assert not told["done"]
    assert [one["topic"] for one in told["topics"]] == ["orders", "other"]
    assert told["topics"][0]["settings"] == {"retention.ms": "-1"}
    assert os.listdir(tmp_path) == ["kafka"]


def test_links_share_closed_segments_only(source, tmp_path):
    target = tmp_path / "new"
    run(source, "--data-dir", target, "--link")
    shared = [
        path.name
        for path in sorted((target / "orders-0").iterdir())
        if os.path.samefile(path, source / "orders-0" / path.name)
    ]
    logs = sorted(path.name for path in (source / "orders-0").glob("*.log"))
    assert shared == logs[:-1] != []


def test_a_link_to_another_volume_is_refused(source, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    assert "--copy works" in run(source, "--data-dir", tmp_path / "new", "--link", code=1)
    assert not (tmp_path / "new").exists()


def test_some_topics(source, tmp_path):
    target = tmp_path / "new"
    told = report(source, "--data-dir", target, "--topics", "ord*")
    assert [one["topic"] for one in told["topics"]] == ["orders"]
    assert not (target / "other-0").exists()
    offsets = checkpoints.decode((target / checkpoints.RECOVERY_POINTS).read_bytes())
    assert [str(key) for key in offsets] == ["orders-0"]


def test_in_place_writes_the_store_only(source):
    before = files(source)
    shown = run(source, "--in-place")
    assert "--set node.id=7" in shown
    after = files(source)
    assert after.pop("barnabas.db")
    assert after == before
    assert "in use already" in run(source, "--in-place", code=1)
    assert "--topics" in run(source, "--in-place", "--topics", "x", code=2)


def test_a_half_done_import_is_begun_again(source, tmp_path):
    partial = tmp_path / "new.importing"
    partial.mkdir()
    (partial / "somebody's").touch()
    run(source, "--data-dir", tmp_path / "new", code=1)
    assert (partial / "somebody's").exists()
    (partial / ".barnabas-import").touch()
    (tmp_path / "new").mkdir()
    run(source, "--data-dir", tmp_path / "new")
    assert not partial.exists()
    assert not (tmp_path / "new/somebody's").exists()


def test_what_is_in_use_or_no_directory_of_kafkas_is_refused(source, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "no partition" in run(tmp_path / "empty", "--data-dir", tmp_path / "new", code=1)
    assert "in use already" in run(source, "--data-dir", source, code=1)
    lock = lock_directory(str(source))
    assert "a broker is running" in run(source, "--data-dir", tmp_path / "new", code=1)
    lock.release()


def test_a_disk_too_small_is_told_before_anything_is_copied(source, tmp_path, monkeypatch):
    import shutil

    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 0))
    assert "--link needs no room" in run(source, "--data-dir", tmp_path / "new", code=1)


def test_without_a_metadata_log_settings_are_missed_aloud(source, tmp_path):
    for path in (source / "__cluster_metadata-0").iterdir():
        path.unlink()
    (source / "__cluster_metadata-0").rmdir()
    (source / ".kafka_cleanshutdown").unlink()
    shown = run(source, "--data-dir", tmp_path / "new", "--node-id", "4")
    assert "ZooKeeper" in shown
    assert "not stopped cleanly" in shown
    assert "--set node.id=4" in shown
    assert not (tmp_path / "new/.kafka_cleanshutdown").exists()


def test_what_is_not_kafkas_is_refused(source, tmp_path):
    (source / "meta.properties").unlink()
    assert "no directory of Kafka's" in run(source, "--data-dir", tmp_path / "new", code=1)
    assert not (tmp_path / "new").exists()


def test_a_directory_that_is_named_twice_is_refused(source, tmp_path):
    shown = run(source, source, "--data-dir", tmp_path / "new", code=1)
    assert f"is in {source} and in {source}" in shown


def test_directories_of_two_clusters_are_refused(source, tmp_path):
    other = tmp_path / "other"
    (other / "more-0").mkdir(parents=True)
    meta = MetaProperties(1, "another", 7, None)
    (other / "meta.properties").write_bytes(meta_properties.encode(meta))
    assert "of different clusters" in run(source, other, "--data-dir", tmp_path / "new", code=1)


def test_the_new_directory_is_not_made_within_the_source(source):
    before = files(source)
    assert "name another one" in run(source, "--data-dir", source / "new", code=1)
    assert files(source) == before


@pytest.mark.parametrize("way", [[], ["--link"], ["--in-place"], ["--dry-run"]])
@pytest.mark.parametrize(
    "name", ["outside-0", "orders-0/00000000000000000009.log", "meta.properties", "barnabas.db"]
)
def test_links_out_of_the_directory_are_not_followed(source, tmp_path, name, way):
    secret = tmp_path / "secret"
    (source / "orders-1").rename(secret)
    (source / name).unlink(missing_ok=True)
    (source / name).symlink_to(secret)
    before = files(source)
    told = run(
        source, *way, *([] if way == ["--in-place"] else ["--data-dir", tmp_path / "new"]), code=1
    )
    assert f"{source / name} is a symbolic link to {secret}" in told
    assert files(source) == before
    assert not list(tmp_path.glob("new*"))
