"""Apache Kafka's `kafka-consumer-groups`, every operation, and its console consumer in groups. The steps are in java/GroupTools.java."""

import base64
import uuid

import pytest

pytestmark = pytest.mark.java

STEPS_OF_BOTH = [
    *(
        f"{step}_{protocol}"
        for step in ("list", "describe", "reset", "delete", "console")
        for protocol in ("classic", "consumer")
    ),
    "reset_files",
    "delete_offsets",
]
# 3.9 has no --validate-regex and no settings of groups, and its formatters stop at records of the consumer protocol.
STEPS_OF_4 = ["validate_regex", "configs", "formatter_classic", "formatter_consumer"]
STEPS = {"4.3.1": STEPS_OF_BOTH + STEPS_OF_4, "3.9.2": STEPS_OF_BOTH}


@pytest.fixture(scope="module")
def outcomes(java, group_bootstrap):
    """Step -> outcome of one release; all steps of a release share one JVM."""
    known = {}

    def of(release):
        if release not in known:
            prefix = f"tools-{release}-{uuid.uuid4().hex[:8]}"
            done = java.run(release, group_bootstrap, prefix, *STEPS[release], program="GroupTools")
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
