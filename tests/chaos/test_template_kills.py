"""Templates of pipelines as users run them, while driver, Python workers and the broker are killed: what comes out equals the model.

`make chaos CHAOS_ROUNDS=20`, again with CHAOS_SEED. Each round sends a part of the load, waits until some of it has come out and for a time that the seed says, and kills.
"""

import logging
import os
import random
import threading
from contextlib import ExitStack
from functools import partial

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")

from chaos.wire_kit import BrokerProcess, eventually
from cluster_kit import ROUNDS, only_in_make_chaos
from template_cases import CASES
from template_kit import Running, template

from barnabas.pipelines import feeding
from barnabas.runtime.lasting_port import lasting_port

log = logging.getLogger(__name__)

SEED = int(os.environ.get("CHAOS_SEED", "1"))
PATIENCE_S = 300
PER_ROUND = 150
#: A batch and what follows it take about so long.
MOMENT_S = 3.0
PAUSE = threading.Event()


def came_out(made, bootstrap, tables, before, running):
    PAUSE.wait(0.5)  # asking takes the database and the broker time, too
    return running.has_ended or made.progress(bootstrap, tables) > before


@only_in_make_chaos
@pytest.mark.timeout(1200 + 240 * ROUNDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kills_change_nothing_of_what_comes_out(case, tmp_path):
    rng = random.Random(SEED)
    with ExitStack() as stack:
        project = stack.enter_context(template(case.name, tmp_path))
        tables = project.folder / ".barnabas/storage/continuous/tables"
        made = case(stack, SEED, PER_ROUND * ROUNDS)
        broker = BrokerProcess(
            tmp_path / "broker", listen=(f"127.0.0.1:{lasting_port('127.0.0.1')}",)
        )
        stack.callback(lambda: broker.kill())
        bootstrap = broker.bootstrap
        made.make_topics(bootstrap)
        feeding.feed(made.first, bootstrap)
        running = Running(project, bootstrap, made.settings)
        stack.callback(running.kill)
        size = -(-len(made.events) // ROUNDS)
        for number in range(ROUNDS):
            before = made.progress(bootstrap, tables)
            feeding.feed(made.events[number * size : (number + 1) * size], bootstrap)
            eventually(
                partial(came_out, made, bootstrap, tables, before, running),
                "something comes out",
                PATIENCE_S,
            )
            PAUSE.wait(rng.uniform(0, MOMENT_S))
            kind = rng.choice(["driver", "worker", "broker"])
            log.warning("%s, round %d: kill %s", case.name, number, kind)
            if (
                running.has_ended
                or kind == "driver"
                or (kind == "worker" and not running.kill_worker(rng))
            ):
                running.kill()
                running.start()
            elif kind == "broker":
                broker.kill()
                broker = BrokerProcess(tmp_path / "broker", listen=(bootstrap,))
        feeding.feed(made.last, bootstrap)
        eventually(
            lambda: PAUSE.wait(0.5) or made.is_done(bootstrap, tables),
            "the output equals the model",
            PATIENCE_S,
        )
