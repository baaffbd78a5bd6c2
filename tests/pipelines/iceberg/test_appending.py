"""Batches into a real Iceberg table, without Spark: once each, and never many files."""

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException

from barnabas.pipelines.iceberg import appending
from barnabas.pipelines.iceberg.appending import CATALOG, AppendedTable


@pytest.fixture
def place(tmp_path):
    return f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse", "shop.activity"


@pytest.fixture
def look(place):
    def opened():
        return SqlCatalog(CATALOG, uri=place[0], warehouse=place[1]).load_table(place[2])

    return opened


def rows(*numbers, hour="h1"):
    return pa.table(
        {"hour": pa.array([hour] * len(numbers), pa.string()), "n": pa.array(numbers, pa.int64())}
    )


def numbers(table):
    return sorted(table.scan().to_arrow()["n"].to_pylist())


def test_a_batch_counts_once_for_each_query(place, look):
    assert AppendedTable(*place).append("q", 0, rows(1, 2), "hour")
    assert not AppendedTable(*place).append("q", 0, rows(1, 2), "hour")
    assert AppendedTable(*place).append("q", 1, rows(3), "hour")
    assert AppendedTable(*place).append("other", 0, rows(4), "hour")
    assert not AppendedTable(*place).append("q", 0, rows(9), "hour")
    assert numbers(look()) == [1, 2, 3, 4]


def test_there_are_never_many_files(place, look, monkeypatch):
    monkeypatch.setattr(appending, "MANY_FILES", 3)
    table = AppendedTable(*place)
    for batch in range(8):
        both = [rows(batch)] + [rows(-batch, hour="h2")] * (batch % 2)
        table.append("q", batch, pa.concat_tables(both), "hour")
        parts = [each["hour"] for each in look().inspect.files()["partition"].to_pylist()]
        assert max(parts.count(each) for each in parts) <= 3
    assert numbers(look()) == sorted([*range(8), -1, -3, -5, -7])


def test_a_commit_that_fails_has_added_nothing(place, look, monkeypatch):
    table = AppendedTable(*place)
    table.append("q", 0, rows(1), "hour")

    def lost(*_args, **_more):
        raise CommitFailedException("killed")

    with monkeypatch.context() as patched:
        patched.setattr(appending.SqlCatalog, "commit_table", lost)
        with pytest.raises(CommitFailedException):
            table.append("q", 1, rows(2), "hour")
    assert numbers(look()) == [1]
    assert table.append("q", 1, rows(2), "hour")
    assert numbers(look()) == [1, 2]


def meanwhile(monkeypatch, act):
    """Do something once, between what a batch has read of the table and its commit."""
    commit_table = appending.SqlCatalog.commit_table
    acts = [act]

    def later(catalog, *args, **more):
        if acts:
            acts.pop()()
        return commit_table(catalog, *args, **more)

    monkeypatch.setattr(appending.SqlCatalog, "commit_table", later)


def test_a_batch_that_two_drivers_commit_at_once_counts_once(place, look, monkeypatch):
    AppendedTable(*place).append("q", 0, rows(1), "hour")
    meanwhile(monkeypatch, lambda: AppendedTable(*place).append("q", 1, rows(2), "hour"))
    assert not AppendedTable(*place).append("q", 1, rows(2), "hour")
    assert numbers(look()) == [1, 2]


def test_queries_that_commit_at_once_both_count(place, look, monkeypatch):
    AppendedTable(*place).append("q", 0, rows(1), "hour")
    meanwhile(monkeypatch, lambda: AppendedTable(*place).append("other", 0, rows(2), "hour"))
    assert AppendedTable(*place).append("q", 1, rows(3), "hour")
    assert numbers(look()) == [1, 2, 3]


def files_on_disk(tmp_path):
    return {
        f"file://{each}" for each in tmp_path.joinpath("warehouse").rglob("*") if each.is_file()
    }


SHORT = {
    "history.expire.max-snapshot-age-ms": "0",
    "history.expire.min-snapshots-to-keep": "2",
    "write.metadata.previous-versions-max": "3",
}


def test_old_snapshots_go_with_their_files_and_no_batch_counts_again(
    place, look, monkeypatch, tmp_path
):
    monkeypatch.setattr(appending, "MANY_FILES", 3)
    monkeypatch.setattr(appending, "MANY_SNAPSHOTS", 4)
    table = AppendedTable(*place)
    table.append("q", 0, rows(0), "hour")
    first = look()
    first.manage_snapshots().create_tag(first.current_snapshot().snapshot_id, "kept").commit()
    with look().transaction() as changing:
        changing.set_properties(SHORT)
    for batch in range(1, 20):
        table.append("q", batch, rows(batch), "hour")
    for batch in range(20):
        assert not table.append("q", batch, rows(batch), "hour")
    now = look()
    assert numbers(now) == list(range(20))
    # The tag, two that are kept, and what has not become many yet: a batch makes up to three.
    assert len(now.metadata.snapshots) <= 1 + 2 + 4 + 3
    assert now.scan(snapshot_id=first.current_snapshot().snapshot_id).to_arrow()["n"].to_pylist() == [0]  # fmt: skip
    needed = appending._files(now, now.metadata.snapshots)
    metadata = {each.metadata_file for each in now.metadata.metadata_log}
    assert files_on_disk(tmp_path) == needed | metadata | {now.metadata_location}


def test_snapshots_of_a_table_that_was_made_elsewhere_stay(place, look, monkeypatch):
    monkeypatch.setattr(appending, "MANY_SNAPSHOTS", 1)
    table = AppendedTable(*place)
    table.append("q", 0, rows(0))
    with look().transaction() as changing:
        changing.remove_properties("history.expire.max-snapshot-age-ms")
    for batch in range(1, 5):
        table.append("q", batch, rows(batch))
    assert len(look().metadata.snapshots) == 5


def test_a_new_table_keeps_few_metadata_files(place, look, tmp_path):
    table = AppendedTable(*place)
    for batch in range(30):
        table.append("q", batch, rows(batch))
    assert len(list(tmp_path.rglob("*.metadata.json"))) <= 21


def test_expiring_that_fails_does_not_fail_the_batch(place, look, monkeypatch):
    monkeypatch.setattr(appending, "MANY_SNAPSHOTS", 1)
    table = AppendedTable(*place)
    table.append("q", 0, rows(0))
    with look().transaction() as changing:
        changing.set_properties(SHORT)
    table.append("q", 1, rows(1))

    def lost(*_args):
        raise FileNotFoundError("a manifest")

    monkeypatch.setattr(appending, "_files", lost)
    for batch in range(2, 5):
        assert table.append("q", batch, rows(batch))
    assert numbers(look()) == list(range(5))


def test_a_table_without_parts(place, look):
    AppendedTable(*place).append("q", 0, rows(1))
    AppendedTable(*place).append("q", 1, rows())
    assert numbers(look()) == [1]
