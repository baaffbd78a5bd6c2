"""Every template to the end of what is there with Spark's own runner, as `barnabas pipeline run --once` starts it."""

from contextlib import ExitStack

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")

from cluster_kit import only_in_make_chaos
from template_cases import CASES
from template_kit import TIMEOUT_S, run_to_the_end, template

from barnabas import Broker
from barnabas.pipelines import feeding

COUNT = 300


@only_in_make_chaos
@pytest.mark.timeout(TIMEOUT_S + 120)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_run_ends_and_all_has_come_out(case, tmp_path):
    with ExitStack() as stack:
        project = stack.enter_context(template(case.name, tmp_path))
        bootstrap = stack.enter_context(Broker()).bootstrap
        made = case(stack, 1, COUNT)
        made.make_topics(bootstrap)
        feeding.feed([*made.first, *made.events, *made.last], bootstrap)
        said = run_to_the_end(project, bootstrap, made.settings | made.settings_once)
        assert "Run is COMPLETED." in said
        assert made.is_done(bootstrap, project.folder / ".barnabas/storage/once/tables")
