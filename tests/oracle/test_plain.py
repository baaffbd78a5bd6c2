"""Clients of every library on a lone broker: every partition holds what was acknowledged to it, in order, and nothing else."""

import logging

from chaos.wire_kit import BrokerProcess
from oracle.loads import Lanes, Plain, assert_unbroken, drawn_seed

log = logging.getLogger(__name__)

SECONDS = 4
LIMIT = 4_000
LANES_SECONDS = 3
LANES_LIMIT = 40_000


def test_partitions_hold_what_was_acknowledged(commands, tmp_path):
    with BrokerProcess(tmp_path / "data", settings=Plain.SETTINGS) as broker:
        seed = drawn_seed()
        told = Plain(broker, commands).run(seed, tmp_path / "drivers", SECONDS, LIMIT)
        log.warning("ORACLE_SEED=%d: %s", seed, told)
        assert broker.terminate() == 0
        assert_unbroken(broker)


def test_bursts_stay_where_they_belong_beside_single_records(tmp_path):
    with BrokerProcess(tmp_path / "data", settings=Plain.SETTINGS) as broker:
        seed = drawn_seed()
        told = Lanes(broker).run(seed, tmp_path / "drivers", LANES_SECONDS, LANES_LIMIT)
        log.warning("ORACLE_SEED=%d: %s", seed, told)
        assert broker.terminate() == 0
        assert_unbroken(broker)
