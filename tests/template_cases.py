"""What goes into each template of a pipeline, and whether what has come out is what a model in plain Python says.

A case is made while the template's own modules are importable (`template_kit`). It has `first`, `events` and `last` to be sent in this order; `is_done` looks at topics and at the files of tables, and asks no Spark. What is there
too often is so for ever: that fails at once.
"""

import itertools
import json
import time
from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq
from postgres_kit import postgres, rows
from topic_kit import consume_all, make_topic

from barnabas.pipelines import feeding

MINUTE_MS = 60_000


def written(folder):
    """The rows of a table: of finished batches, as Spark's log of them says, or of a view that is whole."""
    log = folder / "_spark_metadata"
    try:
        if log.is_dir():
            files = [each["path"].removeprefix("file://") for each in _added(log)]
        else:
            files = folder.rglob("*.parquet") if (folder / "_SUCCESS").exists() else []
        return [row for file in files for row in _rows(file)]
    except FileNotFoundError:  # a version of a view that was replaced meanwhile
        return []


def _added(log):
    compacted = [int(each.stem) for each in log.glob("[0-9]*.compact")]
    whole = max(compacted, default=-1)
    batches = [each for each in log.iterdir() if each.name.isdigit() and int(each.name) > whole]
    if compacted:
        batches.append(log / f"{whole}.compact")
    return [json.loads(line) for each in batches for line in each.read_text().splitlines()[1:]]


def _rows(file):
    return pq.ParquetFile(file, coerce_int96_timestamp_unit="us").read().to_pylist()


def batches(checkpoints):
    """How many batches all flows together have finished."""
    finished = {}
    for each in checkpoints.glob("*/commits/[0-9]*"):
        flow = each.parent.parent.name
        finished[flow] = max(finished.get(flow, 0), int(each.stem) + 1)
    return sum(finished.values())


def milliseconds(at):
    """As Spark counts them: what is less than one is left out."""
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def values(bootstrap, topic):
    return Counter(each.value() for each in consume_all(bootstrap, topic))


class Case:
    """What all have."""

    name = ""
    topics = ()
    settings = {}  # noqa: RUF012 - never changed
    #: For a run that ends with what is there.
    settings_once = {}  # noqa: RUF012 - never changed
    first = ()
    last = ()

    def make_topics(self, bootstrap):
        for topic in self.topics:
            make_topic(bootstrap, topic, 2)


class Starter(Case):
    """Orders."""

    name = "starter"
    topics = ("orders", "orders.dlq", "orders-large")

    def __init__(self, _stack, seed, count):
        import generate

        self.events = list(generate.events(seed, count))
        said = [each.value for each in self.events if each.value.startswith(b"{")]
        self._dead = Counter(each.value for each in self.events if not each.value.startswith(b"{"))
        self._orders = Counter(tuple(json.loads(each).values()) for each in said)

    def progress(self, _bootstrap, tables):
        return len(written(tables / "orders"))

    def is_done(self, bootstrap, tables):
        found = Counter((row["customer"], row["amount"]) for row in written(tables / "orders"))
        large = Counter(
            tuple(json.loads(each.value()).values())
            for each in consume_all(bootstrap, "orders-large")
        )
        expected = Counter({each: n for each, n in self._orders.items() if each[1] >= 100})
        dead = values(bootstrap, "orders.dlq")
        assert found <= self._orders
        assert large <= expected
        assert dead <= self._dead
        counted = {row["customer"]: row["orders"] for row in written(tables / "totals")}
        by_customer = Counter(each.key.decode() for each in self.events if each.value[:1] == b"{")
        return (found, large, dead, counted) == (self._orders, expected, self._dead, by_customer)


class Metrics(Case):
    """Readings, by the minute and the hour."""

    name = "metrics"
    topics = ("metrics", "metrics.dlq", "metrics.alerts")
    LATE_MS, OPEN_MS = 120_000, 150_000
    #: So far are readings apart: what is sent at once must be within what a minute stays open longer than readings may be late.
    STEP_MS = 80

    def __init__(self, _stack, seed, count):
        import functions
        import generate

        clock = time.time_ns() // 1_000_000 // 3_600_000 * 3_600_000 - 3_600_000
        ticks = itertools.count(clock, self.STEP_MS)
        self.events = list(generate.events(seed, count, lambda: next(ticks)))
        # Read as JSON and refused by a check: its letter must still be what came, byte for byte.
        middle = len(self.events) // 2
        by_hand = b'{"service":  "cart", "by": "hand"}'
        at_ms = self.events[middle].timestamp_ms
        self.events.insert(middle, feeding.Event("metrics", "broken", by_hand, timestamp_ms=at_ms))
        end_ms = clock + count * self.STEP_MS + 30 * MINUTE_MS
        end = generate.Reading("end", "end", "memory_mb", "gauge", 1.0, end_ms)
        self.last = [feeding.Event("metrics", "end", end.as_json(), timestamp_ms=end_ms)]
        self._dead = Counter(each.value for each in self.events if each.key == "broken")
        good = [
            (each.timestamp_ms, json.loads(each.value))
            for each in self.events
            if each.key != "broken"
        ]
        in_time, late = [], []
        for received_ms, each in good:
            each["ms"] = milliseconds(datetime.fromisoformat(each["time"]))
            (late if received_ms - each["ms"] > self.LATE_MS else in_time).append(each)
        self._minutes = self._aggregated(in_time, MINUTE_MS)
        self._hours = self._aggregated([*in_time, *late], 60 * MINUTE_MS)
        self._late = Counter((each["host"], each["name"], each["value"]) for each in late)
        self._alerts = self._broken(functions.RULES)

    @staticmethod
    def _aggregated(readings, width_ms):
        groups = {}
        for each in readings:
            key = each["service"], each["name"], each["ms"] // width_ms * width_ms
            groups.setdefault(key, []).append(each["value"])
        return {
            key: (len(each), round(sum(each), 3), min(each), max(each))
            for key, each in groups.items()
        }

    def _broken(self, rules):
        found = Counter()
        for key, (readings, total, _, highest) in self._minutes.items():
            seen = {"total": total, "mean": total / readings, "highest": highest}
            for name, aggregate, comparison, limit, _ in rules:
                value = seen[aggregate]
                found[key] += key[1] == name and (
                    value > limit if comparison == ">" else value < limit
                )
        return +found

    @staticmethod
    def _told(rows, start):
        found = [
            (
                (row["service"], row["name"], milliseconds(row[start])),
                (row["readings"], round(row["total"], 3), row["lowest"], row["highest"]),
            )
            for row in rows
        ]
        assert len(dict(found)) == len(found), "a window is there once"
        return dict(found)

    def progress(self, _bootstrap, tables):
        return batches(tables.parent / "checkpoints")

    def is_done(self, bootstrap, tables):
        late = Counter((row["host"], row["name"], row["value"]) for row in written(tables / "late"))
        dead = values(bootstrap, "metrics.dlq")
        said = [json.loads(each.value()) for each in consume_all(bootstrap, "metrics.alerts")]
        alerts = Counter(
            (each["service"], each["name"], milliseconds(datetime.fromisoformat(each["minute"])))
            for each in said
        )
        assert late <= self._late
        assert dead <= self._dead
        assert alerts <= self._alerts
        minutes = self._told(written(tables / "per_minute"), "minute")
        hours = self._told(written(tables / "per_hour"), "hour")
        return (late, dead, alerts, minutes, hours) == (
            self._late,
            self._dead,
            self._alerts,
            self._minutes,
            self._hours,
        )


class Logs(Case):
    """Lines in a table and an index."""

    name = "logs"
    topics = ("logs", "logs.dlq")
    # Silence would end an event whose other lines are still to be sent.
    settings = {"logs.quiet.seconds": "36000"}  # noqa: RUF012 - never changed

    def __init__(self, _stack, seed, count):
        import functions
        import generate

        self._index = str(functions.__file__).replace("functions.py", ".barnabas/index")
        clock = itertools.count(time.time_ns() // 1_000_000 - MINUTE_MS, 37)
        mixed = list(generate.mixed(seed, count, lambda: next(clock)))
        self.events = [feeding.Event("logs", source, line) for source, line, _ in mixed]
        shops = dict.fromkeys(source for source, _, _ in mixed if source.startswith("shop-"))
        end = "2026-11-16 10:00:00,000 INFO end: end"
        self.last = [feeding.Event("logs", source, end) for source in shops]
        stories = {id(story): story for _, _, story in mixed}.values()
        self._events = Counter(self._known(each) for each in stories if each.level)
        bad = [line for each in stories if not each.level for line in each.lines]
        self._dead = Counter(line if isinstance(line, bytes) else line.encode() for line in bad)

    @staticmethod
    def _known(story):
        more = story.more.get("host"), story.more.get("stack")
        return story.source, story.level, story.message, story.time_ms, *more

    def progress(self, _bootstrap, tables):
        return len(written(tables / "events"))

    def is_done(self, bootstrap, tables):
        from barnabas.pipelines.problem import PipelineProblem
        from barnabas.pipelines.search.finding import LogIndex

        found = Counter(
            (
                row["source"],
                row["level"],
                row["message"],
                milliseconds(row["time"]),
                row["host"],
                row["stack"],
            )
            for row in written(tables / "events")
            if row["_error"] is None and row["message"] != "end"
        )
        dead = values(bootstrap, "logs.dlq")
        assert found <= self._events, found - self._events
        assert dead <= self._dead
        try:
            searched = LogIndex(self._index).search("* -message:end").total
        except PipelineProblem:
            searched = 0
        total = self._events.total()
        assert searched <= total
        return (found, dead, searched) == (self._events, self._dead, total)


class Activity(Case):
    """Events, sessions, reports."""

    name = "activity"
    topics = tuple(
        f"{topic}{suffix}"
        for topic in ("page-views", "clicks", "searches")
        for suffix in ("", ".dlq")
    )
    POISON = (("clicks", "{"), ("searches", '{"visitor":"y"}'))

    def __init__(self, _stack, seed, count):
        import functions
        import generate

        visits = list(generate.visits(seed, count, visitors=40))
        self.events = [
            feeding.Event(topic, each["visitor"], json.dumps(each)) for topic, each in visits
        ]
        for place, (topic, value) in enumerate(self.POISON):
            self.events.insert((place + 1) * count // 3, feeding.Event(topic, "x", value))
        # Long after everything else, so that the watermark closes every session before it.
        end = {"visitor": "end", "at": "2026-03-01T00:00:00+00:00", "page": "/"}
        self.last = [feeding.Event("page-views", "end", json.dumps(end))]
        self._count = count + len(self.last)
        sessions = sessions_of(functions, visits)
        self._sessions = Counter(map(_frozen, sessions))
        self._funnel = {
            place: sum(each["depth"] >= place for each in sessions) for place in range(5)
        }
        views = Counter(page for each in sessions for page in each["pages"])
        self._top = dict(sorted(views.items(), key=lambda each: (-each[1], each[0]))[:20])

    def progress(self, _bootstrap, tables):
        return len(written(tables / "activity"))

    def is_done(self, bootstrap, tables):
        found = Counter()
        for row in written(tables / "sessions"):
            times = {name: milliseconds(row[name]) for name in ("started", "ended")}
            found[_frozen(row | times)] += 1
        activity = len(written(tables / "activity"))
        dead = [
            (topic, value.decode())
            for topic in ("page-views", "clicks", "searches")
            for value in values(bootstrap, f"{topic}.dlq").elements()
        ]
        assert found <= self._sessions, found - self._sessions
        assert activity <= self._count
        assert len(dead) <= len(self.POISON)
        funnel = {row["place"]: row["sessions"] for row in written(tables / "funnel")}
        top = {row["page"]: row["views"] for row in written(tables / "top_pages")}
        return (found, activity, set(dead), funnel, top) == (
            self._sessions,
            self._count,
            set(self.POISON),
            self._funnel,
            self._top,
        )


def sessions_of(functions, visits):
    """The sessions that must come out of (topic, event)."""
    by_visitor = {}
    for topic, each in visits:
        at_ms = milliseconds(datetime.fromisoformat(each["at"]))
        event = functions.Event(at_ms, functions.KINDS[topic], each.get("page", ""))
        by_visitor.setdefault(each["visitor"], []).append(event)
    return [
        functions.summary(visitor, session)
        for visitor, all_of_one in by_visitor.items()
        for session in functions.split(all_of_one)
    ]


def _frozen(session):
    return tuple(
        tuple(value) if isinstance(value, list) else value for _, value in sorted(session.items())
    )


class Suggestions(Case):
    """Each product's nearest."""

    name = "suggestions"
    topics = ("shop-visits", "shop-visits.dlq", "shop-pairs", "shop-pairs.dlq", "suggestions")
    POISON = b"{no JSON"

    def __init__(self, _stack, seed, count):
        import evaluate
        import generate

        # So many that nobody looks at more within half an hour than is remembered: then it would matter what comes in one batch.
        visits = list(generate.visits(seed, count, customers=1000))
        self.events = [
            feeding.Event("shop-visits", each["customer"], json.dumps(each)) for each in visits
        ]
        self.events.insert(count // 2, feeding.Event("shop-visits", "x", self.POISON))
        self._expected = evaluate.neighbours_of(visits)

    def progress(self, bootstrap, _tables):
        return len(consume_all(bootstrap, "suggestions"))

    def is_done(self, bootstrap, _tables):
        found = {
            each.key().decode(): json.loads(each.value())["similar"]
            for each in consume_all(bootstrap, "suggestions")
        }
        return (
            found.keys() == self._expected.keys()
            and all(self._are_nearest(product, each) for product, each in found.items())
            and set(values(bootstrap, "shop-visits.dlq")) == {self.POISON}
        )

    def _are_nearest(self, product, similar):
        scores = self._expected[product]
        least = similar[-1]["score"] + 1e-5
        left_out = scores.keys() - {each["product"] for each in similar}
        return all(
            abs(scores.get(each["product"], 0.0) - each["score"]) < 1e-5 for each in similar
        ) and all(scores[each] <= least for each in left_out)


class CommitLog(Case):
    """A database that follows another."""

    name = "commitlog"
    topics = ("changes", "changes.dlq")

    def __init__(self, stack, seed, count):
        import generate

        self.url = stack.enter_context(postgres())
        self.settings = {"commitlog.target": self.url}
        self._database = generate.Database()
        self.events = list(generate.work(self._database, seed, count))

    def progress(self, _bootstrap, _tables):
        if rows(self.url, "SELECT to_regclass('barnabas_batches')") == [(None,)]:
            return 0
        return rows(self.url, "SELECT coalesce(sum(batch + 1), 0)::int FROM barnabas_batches")[0][0]

    def is_done(self, bootstrap, tables):
        if self.progress(bootstrap, tables) == 0:
            return False
        for table, expected in self._database.rows.items():
            if rows(self.url, "SELECT to_regclass(%s)", table) == [(None,)]:
                return False
            found = rows(
                self.url, f"SELECT to_jsonb(t) - 'barnabas_position' FROM {table} t ORDER BY id"
            )
            if [each[0] for each in found] != [expected[each] for each in sorted(expected)]:
                return False
        return rows(self.url, "SELECT count(*) FROM barnabas_refused") == [(0,)]


class Notifications(Case):
    """Requests with exactly one outcome each."""

    name = "notifications"
    topics = (
        *(
            f"notification-{each}"
            for each in ("requests", "preferences", "outcomes", "requests.dlq", "preferences.dlq")
        ),
        *(f"notifications-{each}" for each in ("email", "sms", "push")),
    )
    settings = {"notifications.window.seconds": "2"}  # noqa: RUF012 - never changed
    # What waits at the end of a run waits for the next one.
    settings_once = {"notifications.window.seconds": "0"}  # noqa: RUF012 - never changed

    def __init__(self, _stack, seed, count):
        import functions
        import generate

        preferences = generate.preferences(seed, 20)
        self.first = [
            feeding.Event(generate.PREFERENCES, user, json.dumps(each))
            for user, each in preferences.items()
        ]
        self.events = list(generate.requests(seed, count, 20))
        self._expected, self._refused = {}, Counter()
        for each in self.events:
            try:
                read = functions.read_request(each.value.encode())
            except ValueError:
                self._refused[each.value.encode()] += 1
                continue
            wants = preferences.get(each.key, functions.read_preferences(None))
            self._expected[read["id"]] = set(functions.wanted_channels(read["app"], wants))

    def progress(self, bootstrap, _tables):
        return len(consume_all(bootstrap, "notification-outcomes"))

    def is_done(self, bootstrap, _tables):
        outcomes = Counter(
            each.key().decode() for each in consume_all(bootstrap, "notification-outcomes")
        )
        assert not outcomes or max(outcomes.values()) == 1
        sent = Counter()
        for channel in ("email", "sms", "push"):
            for each in consume_all(bootstrap, f"notifications-{channel}"):
                sent.update((request, channel) for request in json.loads(each.value())["requests"])
        assert not sent or max(sent.values()) == 1
        dead = values(bootstrap, "notification-requests.dlq")
        assert dead <= self._refused
        wanted = {
            (request, channel)
            for request, channels in self._expected.items()
            for channel in channels
        }
        return (
            outcomes.keys() == self._expected.keys()
            and sent.keys() == wanted
            and dead == self._refused
        )


CASES = (Starter, Metrics, Logs, Activity, Suggestions, CommitLog, Notifications)
