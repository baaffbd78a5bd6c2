"""Activity, whole: events on a real broker, a real Spark, and a model in plain Python of the sessions and reports."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from template_cases import milliseconds, sessions_of
from template_kit import template
from topic_kit import consume_all, make_topic

from barnabas.pipelines import feeding
from barnabas.pipelines.continuous import Pipeline

FAR = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def project(tmp_path):
    """The template as a user gets it."""
    with template("activity", tmp_path) as opened:
        yield opened


@pytest.fixture
def here(shared_broker):
    """Where the topics of the template are."""
    bootstrap = shared_broker.bootstrap
    for name in ("page-views", "clicks", "searches"):
        make_topic(bootstrap, name, partitions=2)
        make_topic(bootstrap, f"{name}.dlq")
    return bootstrap


def records(events):
    return [feeding.Event(topic, each["visitor"], json.dumps(each)) for topic, each in events]


def last_of_all():
    """Long after everything else, so that the watermark closes every session before it."""
    said = {"visitor": "last", "at": FAR.isoformat(), "page": "/"}
    return feeding.Event("page-views", "last", json.dumps(said))


@pytest.mark.timeout(900)  # Spark, on a machine with much else to do
def test_from_events_to_sessions_and_reports(project, here, spark, tmp_path):
    import functions
    import generate

    events = list(generate.visits(4, 600, visitors=40))
    sessions = sessions_of(functions, events)
    settings = {"barnabas.bootstrap.servers": here, "spark.sql.shuffle.partitions": "2"}
    bad = [feeding.Event("clicks", "x", "{"), feeding.Event("searches", "y", '{"visitor": "y"}')]
    # It would end the sessions of everybody who comes after it.
    future = {"visitor": "z", "at": "2100-01-01T00:00:00+00:00", "page": "/"}
    bad.append(feeding.Event("page-views", "z", json.dumps(future)))
    pipeline = Pipeline(project, spark, settings)
    feeding.feed([*records(events[:400]), *bad], here)
    pipeline.run_available()
    feeding.feed([*records(events[400:]), last_of_all()], here)
    pipeline.run_available()

    found = [each.asDict() for each in pipeline.table("sessions").collect()]
    for each in found:
        for name in ("started", "ended"):
            each[name] = milliseconds(each[name].astimezone(UTC))
    assert_same_sessions(found, sessions)
    check_reports(pipeline, sessions)
    assert pipeline.table("activity").where("visitor != 'last'").count() == 600
    dead = [*consume_all(here, "clicks.dlq"), *consume_all(here, "searches.dlq")]
    assert [dict(each.headers())["barnabas.reason"].decode() for each in dead][
        1
    ] == "'at' is missing"
    (future,) = consume_all(here, "page-views.dlq")
    assert dict(future.headers())["barnabas.reason"] == b"'at' is in the future"
    hours = {each["at"][:13] for _, each in events}
    check_files(project, len(hours) + 1)
    check_iceberg(project, spark, settings, tmp_path)


def assert_same_sessions(found, expected):
    def order(each):
        return each["visitor"], each["started"]

    assert sorted(found, key=order) == sorted(expected, key=order)


def check_reports(pipeline, sessions):
    funnel = [
        (each.name, each.sessions) for each in pipeline.table("funnel").orderBy("place").collect()
    ]
    names = ["came", "product", "cart", "checkout", "thanks"]
    assert funnel == [
        (name, sum(each["depth"] >= place for each in sessions)) for place, name in enumerate(names)
    ]
    views = Counter(page for each in sessions for page in each["pages"])
    top = [(each.page, each.views) for each in pipeline.table("top_pages").collect()]
    assert sorted(top) == sorted(sorted(views.items(), key=lambda each: (-each[1], each[0]))[:20])


def check_files(project, hours):
    """Two runs were two batches: no hour has more than two files."""
    folders = [each for each in Path(project.folder).rglob("hour=*") if each.is_dir()]
    assert len(folders) == hours
    assert max(len(list(each.glob("*.parquet"))) for each in folders) <= 2


def check_iceberg(project, spark, settings, tmp_path):
    """The same definitions write an Iceberg table instead; what its sink does is tested by itself."""
    more = {
        "activity.format": "iceberg",
        "activity.iceberg.uri": f"sqlite:///{tmp_path}/catalog.db",
        "activity.iceberg.warehouse": f"file://{tmp_path}/warehouse",
    }
    written = {each.work.step.writes for each in Pipeline(project, spark, settings | more).runs}
    assert "activity_iceberg" in written
    assert "activity" not in written
