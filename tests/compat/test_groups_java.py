"""The groups of Kafka's Java clients: both protocols with 4.4, the classic one with 3.9. The steps are in java/Groups.java."""

import base64
import uuid

import pytest

pytestmark = pytest.mark.java

CLASSIC_STEPS = [
    "share_RangeAssignor",
    "share_RoundRobinAssignor",
    "share_StickyAssignor",
    "share_CooperativeStickyAssignor",
    "static_classic",
    "fenced_classic",
    "pattern_classic",
    "commits_classic",
    "admin_classic",
]
CONSUMER_STEPS = [
    "share_server_uniform",
    "share_server_range",
    "static_consumer",
    "unreleased_consumer",
    "pattern_consumer",
    "server_pattern",
    "bad_server_pattern",
    "commits_consumer",
    "admin_consumer",
    "list_groups",
    "move",
]
STEPS = {"4.4.0": CLASSIC_STEPS + CONSUMER_STEPS, "3.9.2": CLASSIC_STEPS}


@pytest.fixture(scope="module")
def outcomes(java, group_bootstrap):
    """Step -> outcome of one release; all steps of a release share one JVM."""
    known = {}

    def of(release):
        if release not in known:
            prefix = f"java-{release}-{uuid.uuid4().hex[:8]}"
            done = java.run(release, group_bootstrap, prefix, *STEPS[release], program="Groups")
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
