"""The commit log, whole: a database's changes on a real broker, through a real Spark, into a real PostgreSQL that then equals the first."""

import json
import shutil

import psycopg
import pytest
from postgres_kit import postgres, rows
from template_kit import template
from topic_kit import consume_all, make_topic, produce

from barnabas.pipelines import feeding
from barnabas.pipelines.continuous import Pipeline


@pytest.fixture
def project(tmp_path):
    """The template as a user gets it."""
    with template("commitlog", tmp_path) as opened:
        yield opened


@pytest.fixture
def here(shared_broker):
    """Where the topics of the template are."""
    bootstrap = shared_broker.bootstrap
    make_topic(bootstrap, "changes", partitions=2, **{"cleanup.policy": "compact"})
    make_topic(bootstrap, "changes.dlq")
    return bootstrap


def copied(url, table):
    """The rows of a table of the copy, without what the copy itself needs."""
    found = rows(url, f"SELECT to_jsonb(t) - 'barnabas_position' FROM {table} AS t ORDER BY id")
    return [each[0] for each in found]


def assert_equal(url, database):
    for table, expected in database.rows.items():
        assert expected
        assert copied(url, table) == [expected[each] for each in sorted(expected)]
    assert rows(url, "SELECT reason FROM barnabas_refused") == []
    assert rows(url, "SELECT count(*) FROM barnabas_staged") == [(0,)]


def test_from_one_database_to_another(project, here, spark):
    import generate
    import memory

    with postgres() as url:
        settings = {"barnabas.bootstrap.servers": here, "commitlog.target": url}
        database = generate.Database()
        made = list(generate.work(database, 7, 600))
        pipeline = Pipeline(project, spark, settings)
        feeding.feed(made[:250], here)
        produce(
            here,
            "changes",
            [{"value": b"{no JSON", "key": b'["customers", 1]', "headers": {"a": b"b"}}],
        )
        pipeline.run_available()
        # A capture that crashed sends again what it is not sure of: all of it is older than what follows.
        feeding.feed([*made[250:], *made[300:400]], here)
        pipeline.run_available()
        assert_equal(url, database)

        (dead,) = consume_all(here, "changes.dlq")
        assert (dead.key(), dead.value()) == (b'["customers", 1]', b"{no JSON")
        assert dict(dead.headers())["barnabas.reason"] == b"its value is no JSON"

        remembered = memory.Memory(here)
        assert remembered.catch_up() == 701
        assert remembered.catch_up() == 0
        for table, expected in database.rows.items():
            assert remembered.table(table) == {(number,): row for number, row in expected.items()}

        replay_from_zero(project, spark, settings, database)


def replay_from_zero(project, spark, settings, database):
    """With nothing but the topic there is the same copy again, from nothing."""
    url = settings["commitlog.target"]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE second")
    second = url.replace("dbname=postgres", "dbname=second")
    shutil.rmtree(project.state)
    Pipeline(project, spark, settings | {"commitlog.target": second}).run_available()
    assert_equal(second, database)
    schemas = rows(second, "SELECT columns FROM barnabas_schemas WHERE applied ORDER BY 1")
    assert {len(json.loads(each[0])["columns"]) for each in schemas} == {3, 4}
