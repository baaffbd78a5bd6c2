"""Apache Kafka's own Java clients and command-line tools, from two lines of releases. The steps are in java/Scenario.java."""

import base64
import uuid

import pytest

pytestmark = pytest.mark.java

CLIENT_STEPS = [
    *(f"codec_{codec}" for codec in ("none", "gzip", "snappy", "lz4", "zstd")),
    *(f"acks_{acks}" for acks in ("0", "1", "all")),
    "volume",
    "positions",
    "small_fetches",
    "out_of_range",
    "empty_poll",
    "read_committed",
    "too_large",
    "unknown_topic",
    "auto_create",
    "log_append_time",
    "create_topics",
    "delete_topics",
    "create_partitions",
    "topic_configs",
    "broker_configs",
    "delete_records",
    "list_offsets",
    "cluster",
    "authorized_operations",
    "log_dirs",
]
TOOL_STEPS = [
    "tool_topics",
    "tool_configs",
    "tool_console",
    "tool_get_offsets",
    "tool_delete_records",
    "tool_log_dirs",
    "tool_broker_api_versions",
]
# The tools of 4.4 are not published yet; those of 4.3.1 do not all run on the clients of 4.4.
STEPS = {"4.4.0": CLIENT_STEPS, "4.3.1": TOOL_STEPS, "3.9.2": CLIENT_STEPS + TOOL_STEPS}


@pytest.fixture(scope="session")
def outcomes(java, bootstrap):
    """Step -> outcome of one release; all steps of a release share one JVM."""
    known = {}

    def of(release):
        if release not in known:
            prefix = f"java-{release}-{uuid.uuid4().hex[:8]}"
            done = java.run(release, bootstrap, prefix, *STEPS[release])
            assert done.returncode == 0, done.stderr
            known[release] = dict(line.split("\t") for line in done.stdout.splitlines())
            assert known[release]["version"] == release
        return known[release]

    return of


@pytest.mark.parametrize(
    ("release", "step"), [(release, step) for release, steps in STEPS.items() for step in steps]
)
def test_step(outcomes, release, step):
    outcome = outcomes(release)[step]
    if outcome != "ok":
        pytest.fail(base64.b64decode(outcome).decode(), pytrace=False)
