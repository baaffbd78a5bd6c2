"""Suggestions, whole: visits on a real broker, a real Spark, and a model in plain Python of what must come out."""

import json
import shutil
import sys
import urllib.error
import urllib.request
from datetime import date
from pathlib import Path
from threading import Thread

import pytest
from topic_kit import consume_all, make_topic

import barnabas.pipelines
from barnabas.pipelines import feeding
from barnabas.pipelines.continuous import Pipeline
from barnabas.pipelines.project import Project
from barnabas.pipelines.surroundings import importing

TEMPLATE = Path(barnabas.pipelines.__file__).parent / "templates" / "suggestions"
VISITS = 400
# Spark, on a machine with much else to do.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def project(tmp_path):
    """The template as a user gets it, with its own modules importable."""
    shutil.copytree(TEMPLATE, tmp_path / "suggestions")
    opened = Project.open(tmp_path / "suggestions")
    with importing(opened):
        yield opened
    for name in ("evaluate", "functions", "generate", "overnight", "serve"):
        sys.modules.pop(name, None)


@pytest.fixture
def here(shared_broker):
    """Where the topics of the template are."""
    bootstrap = shared_broker.bootstrap
    for name in (
        "shop-visits",
        "shop-visits.dlq",
        "shop-pairs",
        "shop-pairs.dlq",
        "suggestion-mails",
    ):
        make_topic(bootstrap, name, partitions=2)
    make_topic(bootstrap, "suggestions", partitions=2, **{"cleanup.policy": "compact"})
    return bootstrap


def test_from_visits_to_suggestions(project, here, spark):
    import evaluate
    import generate

    pipeline = Pipeline(
        project, spark, {"barnabas.bootstrap.servers": here, "spark.sql.shuffle.partitions": "2"}
    )
    visits = list(generate.visits(3, VISITS, customers=30))
    records = [feeding.Event("shop-visits", each["customer"], json.dumps(each)) for each in visits]
    half = len(records) // 2
    bad = [
        feeding.Event("shop-visits", "x", "{no JSON"),
        feeding.Event("shop-visits", "x", json.dumps({"customer": "x", "product": "a"})),
        feeding.Event("shop-pairs", "a", json.dumps({"product": "a", "other": "b"})),
    ]
    for part in ([*records[:half], *bad], records[half:]):
        feeding.feed(part, here)
        # Pairs come by a topic of their own: what the first flow writes the second one reads in the next run.
        pipeline.run_available()
    pipeline.run_available()

    found = {
        each.key().decode(): json.loads(each.value())["similar"]
        for each in consume_all(here, "suggestions")
    }
    expected = evaluate.neighbours_of(visits)
    assert found.keys() == expected.keys()
    for product, similar in found.items():
        scores = expected[product]
        assert {
            each["product"]: pytest.approx(scores[each["product"]], abs=1e-5) for each in similar
        } == {each["product"]: each["score"] for each in similar}
        left_out = scores.keys() - {each["product"] for each in similar}
        assert all(scores[each] <= similar[-1]["score"] + 1e-5 for each in left_out)
    assert letters(here, "shop-visits.dlq") == {
        b"{no JSON": "is no JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        b'{"customer": "x", "product": "a"}': "'at' is missing",
    }
    assert letters(here, "shop-pairs.dlq") == {
        b'{"product": "a", "other": "b"}': "'weight' is missing"
    }
    check_look_up(here, found)


def letters(bootstrap, topic):
    """Dead letters, and why they are."""
    return {
        each.value(): dict(each.headers())["barnabas.reason"].decode()
        for each in consume_all(bootstrap, topic)
    }


def test_each_customer_gets_one_mail_a_night(project, bootstrap, spark):
    import generate
    import overnight

    overnight.VISITS, overnight.MAILS = "night-visits", "night-mails"
    for name in (overnight.VISITS, overnight.MAILS):
        make_topic(bootstrap, name, partitions=2)
    visits = list(generate.visits(3, 200, customers=20))
    feeding.feed(
        [feeding.Event(overnight.VISITS, each["customer"], json.dumps(each)) for each in visits],
        bootstrap,
    )
    for _ in range(2):  # the second time it is the same night
        overnight.send_mails(spark, bootstrap, date(2026, 5, 1))
    mails = consume_all(bootstrap, overnight.MAILS)
    customers = [each.key().decode() for each in mails]
    assert sorted(customers) == sorted({each["customer"] for each in visits})
    for customer, mail in zip(customers, mails, strict=True):
        seen = {each["product"] for each in visits if each["customer"] == customer}
        products = json.loads(mail.value())["products"]
        assert len(products) == overnight.PER_MAIL
        assert not seen.intersection(products)


def check_look_up(bootstrap, found):
    import serve

    suggestions = serve.Suggestions(bootstrap)
    service = serve.server(suggestions, 0)
    thread = Thread(target=service.serve_forever)
    thread.start()
    try:
        address = f"http://127.0.0.1:{service.server_port}/similar/"
        product = next(iter(found))
        with urllib.request.urlopen(address + product, timeout=30) as answer:
            assert json.load(answer)["similar"] == found[product]
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(address + "nothing", timeout=30)
    finally:
        service.shutdown()
        thread.join()
        service.server_close()
        suggestions.close()


def test_suggestions_beat_what_is_most_popular(project, spark):
    import evaluate
    import generate

    rates = evaluate.compare(spark, list(generate.visits(1, 3000, customers=150)))
    popular = rates.pop("most popular")
    assert min(rates.values()) > 1.5 * popular, (popular, rates)
