"""Templates, unchanged, on a standalone Spark with two workers, as `barnabas pipeline run --master` starts them."""

from contextlib import ExitStack

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")

from cluster_kit import only_in_make_chaos, wait_until
from spark_kit import standalone
from template_cases import CASES
from template_kit import TIMEOUT_S, Running, run_to_the_end, template

from barnabas import Broker
from barnabas.pipelines import feeding

COUNT = 300
pytestmark = [only_in_make_chaos, pytest.mark.java, pytest.mark.timeout(2 * TIMEOUT_S)]


@pytest.fixture
def cluster(tmp_path):
    """A master with two workers."""
    with standalone(tmp_path) as running:
        yield running


@pytest.mark.parametrize("runner", ["--continuous", "--once"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_two_workers_make_what_one_machine_makes(case, runner, tmp_path, cluster):
    with ExitStack() as stack:
        project = stack.enter_context(template(case.name, tmp_path))
        storage = project.folder / ".barnabas/storage"
        bootstrap = stack.enter_context(Broker()).bootstrap
        made = case(stack, 1, COUNT)
        made.make_topics(bootstrap)
        feeding.feed([*made.first, *made.events, *made.last], bootstrap)
        if runner == "--once":
            run_to_the_end(project, bootstrap, made.settings | made.settings_once, cluster.url)
            assert made.is_done(bootstrap, storage / "once/tables")
        else:
            running = Running(project, bootstrap, made.settings, cluster.url)
            stack.callback(running.kill)
            wait_until(
                lambda: running.has_ended or made.is_done(bootstrap, storage / "continuous/tables"),
                "the output equals the model",
                TIMEOUT_S,
            )
            assert not running.has_ended
        assert cluster.busy == 2
