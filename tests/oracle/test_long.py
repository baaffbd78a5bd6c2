"""The same loads for as long as one likes, round after round, and on a cluster whose leaders go: `make chaos ORACLE_SECONDS=3600`."""

import logging
import os
import random
import re
import shutil
import time

import pytest
from chaos.wire_kit import BrokerProcess
from cluster_kit import ROUNDS, Cluster, only_in_make_chaos
from oracle.loads import PASSWORDS, Clustered, Lanes, Plain, Secure, assert_unbroken, drawn_seed
from oracle.planted_kit import PlantedBroker
from security_kit import make_certificates, make_scram_users

log = logging.getLogger(__name__)

pytestmark = [only_in_make_chaos, pytest.mark.timeout(0)]

#: Of all four loads together.
SECONDS = int(os.environ.get("ORACLE_SECONDS") or 20 * ROUNDS)
ROUND_S = 20
#: What bounds memory: some bytes for each of so many records of each client, until its round is judged.
LIMIT = 40_000
LANES_LIMIT = 200_000
PLANTED_ROUNDS = 20
PLANTED_S = 6


def run_rounds(world, folder):
    """Round after round, each with a seed of its own. With ORACLE_SEED there is one: that round again."""
    first = drawn_seed()
    seeds = random.Random(first)
    deadline = time.monotonic() + SECONDS / 4
    seed, rounds = first, 0
    while True:
        log.warning("ORACLE_SEED=%d: %s", seed, type(world).__name__)
        told = world.run(seed, folder, ROUND_S, LANES_LIMIT if isinstance(world, Lanes) else LIMIT)
        rounds += 1
        log.warning("ORACLE_SEED=%d: %s", seed, told)
        shutil.rmtree(folder)
        if os.environ.get("ORACLE_SEED") or time.monotonic() > deadline:
            log.warning("%s: %d rounds", type(world).__name__, rounds)
            return
        seed = seeds.randrange(1 << 32)


def test_plain(commands, tmp_path):
    with BrokerProcess(tmp_path / "data", settings=Plain.SETTINGS) as broker:
        run_rounds(Plain(broker, commands), tmp_path / "drivers")
        assert broker.terminate() == 0
        assert_unbroken(broker)


def test_lanes(tmp_path):
    with BrokerProcess(tmp_path / "data", settings=Plain.SETTINGS) as broker:
        run_rounds(Lanes(broker), tmp_path / "drivers")
        assert broker.terminate() == 0
        assert_unbroken(broker)


def test_the_load_of_real_clients_finds_a_planted_fault(tmp_path):
    """The lane that was opened after a wait: by no shape of ours, but by luck, as users would have found it."""
    with PlantedBroker("lane", tmp_path / "data", settings=Plain.SETTINGS) as broker:
        found = None
        for seed in range(PLANTED_ROUNDS):
            try:
                Lanes(broker).run(seed, tmp_path / "drivers", PLANTED_S, LANES_LIMIT)
            except AssertionError as problem:
                found = str(problem)
                break
        assert found is not None, "what is planted was not found"
        assert re.search(r"in its place: \S+ \S+ \d+ stands in", found), found
        log.warning("planted: %s", found)
        broker.kill()


def test_secure(commands, tmp_path):
    files = make_certificates(tmp_path)
    with BrokerProcess(
        tmp_path / "data", listen=Secure.LISTEN, settings=Secure.settings(files)
    ) as broker:
        make_scram_users(broker.bootstrap, PASSWORDS)
        run_rounds(Secure(broker, commands, files), tmp_path / "drivers")
        assert broker.terminate() == 0
        assert_unbroken(broker)


def test_cluster(commands, tmp_path, zookeeper):
    with Cluster(tmp_path, zookeeper, settings=Clustered.SETTINGS) as cluster:
        run_rounds(Clustered(cluster, commands), tmp_path / "drivers")
        for broker in cluster.brokers.values():
            assert_unbroken(broker)
