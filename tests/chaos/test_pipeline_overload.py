"""Three times as much for a minute as a pipeline takes: the topic keeps what waits, nothing is lost, and the lag goes away."""

import time
from contextlib import ExitStack

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")

from chaos.wire_kit import BrokerProcess
from cluster_kit import only_in_make_chaos, wait_until
from template_cases import Starter
from template_kit import TIMEOUT_S, Running, template

from barnabas.pipelines import feeding
from barnabas.pipelines.run_state import read_status

#: A flow takes at most so much each time, and no sooner than after this time: slower than that it may be, on a machine with much else to do.
PER_BATCH = 400
INTERVAL_S = 2
RATE = 3 * PER_BATCH / INTERVAL_S
SECONDS = 60


@only_in_make_chaos
@pytest.mark.timeout(3 * TIMEOUT_S)
def test_three_times_the_rate_for_a_minute_is_caught_up_with(tmp_path):
    with ExitStack() as stack:
        project = stack.enter_context(template("starter", tmp_path))
        limit(project, PER_BATCH)
        tables = project.folder / ".barnabas/storage/continuous/tables"
        made = Starter(stack, 1, round(RATE * SECONDS))
        broker = BrokerProcess(tmp_path / "broker")
        stack.callback(broker.kill)
        made.make_topics(broker.bootstrap)
        settings = {"barnabas.trigger.interval": f"{INTERVAL_S} seconds"}
        running = Running(project, broker.bootstrap, settings)
        stack.callback(running.kill)

        def status(name):
            """Of the flows that read the topic."""
            assert not running.has_ended
            told = read_status(project.state)
            flows = {each["name"]: each[name] for each in told["flows"]} if told else {}
            return [flows.get("orders"), flows.get("bad_orders")]

        wait_until(lambda: status("state") == ["running"] * 2, "it runs", TIMEOUT_S)
        start = time.monotonic()
        feeding.feed(made.events, broker.bootstrap, RATE)
        assert time.monotonic() - start >= SECONDS - 1
        waiting = len(made.events) - made.progress(broker.bootstrap, tables)
        assert waiting > len(made.events) / 2, "a third is taken at most"
        wait_until(
            lambda: all((each or 0) > SECONDS / 3 for each in status("lag_seconds")),
            "it is behind",
            TIMEOUT_S,
        )
        wait_until(lambda: status("lag") == [0, 0], "the lag goes away", 2 * TIMEOUT_S)
        wait_until(lambda: made.is_done(broker.bootstrap, tables), "all is there", TIMEOUT_S)


def limit(project, per_batch):
    """Have the project take no more of its topic at once."""
    file = project.folder / "transformations/orders.py"
    before = 'startingOffsets="earliest"'
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, f'{before}, maxOffsetsPerTrigger="{per_batch}"'))
