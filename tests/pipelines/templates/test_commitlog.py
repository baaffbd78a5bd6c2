"""The commit log, whole: a database's changes on a real broker, through a real Spark, into a real PostgreSQL that then equals the first."""

import json
import random
import shutil

import psycopg
import pytest
from postgres_kit import postgres, rows
from template_kit import template
from topic_kit import consume_all, make_topic, produce

from barnabas import Broker
from barnabas.pipelines import feeding
from barnabas.pipelines.continuous import Pipeline
from barnabas.pipelines.postgres.target import Change, connected
from barnabas.pipelines.whole_topic import read_topic


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


@pytest.mark.timeout(900)  # Spark, on a machine with much else to do
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


SHOP = """
CREATE TABLE goods (id bigint PRIMARY KEY, name text, price numeric(12, 2));
INSERT INTO goods VALUES (1, 'before', 1.10), (2, 'it all', 2);
CREATE TABLE notes (a int, b text, said jsonb, PRIMARY KEY (a, b));
CREATE TABLE "no key" (a int);
"""
WORK = """
INSERT INTO goods VALUES (3, 'lamp', 123456789.25), (4, 'desk', NULL); UPDATE goods SET name = 'table' WHERE id = 4;
INSERT INTO notes VALUES (1, 'x', '{"y": [1.50, null]}'), (2, 'x', '"text"'), (3, 'z', NULL);
DELETE FROM goods WHERE id = 2; UPDATE notes SET a = 7 WHERE a = 2;
ALTER TABLE goods ADD COLUMN stars int DEFAULT 3; ALTER TABLE goods RENAME name TO title;
INSERT INTO goods VALUES (5, 'new', 1, 5);
ALTER TABLE notes ADD COLUMN at timestamptz DEFAULT clock_timestamp(); ALTER TABLE goods ALTER price TYPE float8;
CREATE TABLE late (id uuid PRIMARY KEY, tags text[]); INSERT INTO late VALUES (gen_random_uuid(), '{a,"b c"}');
CREATE TABLE short (id int PRIMARY KEY); INSERT INTO short VALUES (1), (2);
DROP TABLE short; CREATE TABLE short (id int PRIMARY KEY, more text); INSERT INTO short VALUES (2, 'again');
CREATE TABLE gone (id int PRIMARY KEY); INSERT INTO gone VALUES (1); DROP TABLE gone;
CREATE TABLE empty (id int PRIMARY KEY); INSERT INTO empty VALUES (1), (2); TRUNCATE empty; INSERT INTO empty VALUES (3);
ALTER TABLE goods DROP COLUMN price;
"""


def test_a_real_database_is_captured(project, tmp_path):
    """Without Spark: what triggers saw goes to the topic; applied in any order, it is the same database again."""
    import capture
    import memory

    with postgres() as url, Broker() as broker, psycopg.connect(url, autocommit=True) as source:
        make_topic(broker.bootstrap, "changes", 3, **{"cleanup.policy": "compact"})
        source.execute(SHOP)
        source.execute(capture.INSTALL)
        for statement in WORK.split(";")[:-1]:
            source.execute(statement)
        with psycopg.connect(url) as other:
            other.execute("INSERT INTO goods VALUES (9, 'not committed yet')")
            capture.send(source, broker.bootstrap)
        while capture.send(source, broker.bootstrap):
            pass
        changes = [change_of(each) for each in read_topic(broker.bootstrap, "changes")]
        random.Random(1).shuffle(changes)
        with connected(url, "copy") as target:
            for batch, start in enumerate(range(0, len(changes), 7)):
                staged = {"a": target.stage("q", batch, "a", changes[start : start + 7])}
                target.apply("q", batch, staged, 24)
        tables = ("goods", "notes", "late", "short", "empty")
        for table in tables:
            expected = everything(url, f"public.{table}")
            assert expected
            assert everything(url, f"copy.{table}") == expected
        assert rows(url, "SELECT to_regclass('copy.gone')") == [(None,)]
        assert rows(url, "SELECT reason FROM copy.barnabas_refused") == []
        remembered = memory.Memory(broker.bootstrap)
        remembered.catch_up()
        for table in tables:
            found = [json.dumps(each, sort_keys=True) for each in remembered.table(table).values()]
            assert sorted(found) == sorted(
                json.dumps(each, sort_keys=True) for each in everything(url, f"public.{table}")
            )


def everything(url, table):
    found = rows(url, f"SELECT to_jsonb(t) - 'barnabas_position' FROM {table} AS t ORDER BY 1")
    return [each[0] for each in found]


def change_of(record):
    """As `functions.changes` reads it, without Spark."""
    key = json.loads(record.key)
    if record.value is None:
        return Change(
            "delete", key[0], record.key.decode(), None, int(dict(record.headers)["position"]), None
        )
    said = json.loads(record.value)
    kind = "schema" if isinstance(key[1], dict) else "row"
    version = key[1]["schema"] if kind == "schema" else said["schema"]
    return Change(
        kind, key[0], record.key.decode(), version, said["position"], record.value.decode()
    )
