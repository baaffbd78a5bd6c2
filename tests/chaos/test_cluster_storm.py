"""One misfortune after another, chosen by a seed: `make chaos CHAOS_ROUNDS=50`, again with CHAOS_SEED.

After each all is well again within a while, and at the end everything that was acknowledged is there, once, in order, on every broker.
"""

import logging
import os
import random

import pytest
from cluster_kit import (
    ROUNDS,
    SESSION_MS,
    Cluster,
    assert_logs_equal,
    only_in_make_chaos,
    wait_until,
)
from load_kit import Load, assert_nothing_lost

log = logging.getLogger(__name__)

SETTINGS = ("replica.lag.time.max.ms=2000",)
BROKERS = (1, 2, 3)


@pytest.fixture
def cluster(tmp_path, zookeeper):
    with Cluster(tmp_path, zookeeper, settings=SETTINGS, has_proxies=True) as running:
        running.create("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2]], min_insync_replicas=2)
        yield running


# Misfortunes: each ends when all that was broken works again.


def die(cluster, load, victim, _rng):
    cluster.kill(victim)
    go_on_without(cluster, load, victim)
    cluster.start(victim)


def die_with_the_disk(cluster, load, victim, _rng):
    cluster.kill(victim)
    go_on_without(cluster, load, victim)
    cluster.wipe(victim)
    cluster.start(victim)


def stop(cluster, load, victim, _rng):
    cluster.stop(victim)
    go_on_without(cluster, load, victim)
    cluster.start(victim)


def sleep(cluster, load, victim, _rng):
    cluster.pause(victim)
    go_on_without(cluster, load, victim)
    cluster.resume(victim)


def nod(cluster, load, victim, _rng):
    """Shorter than the session."""
    cluster.pause(victim)
    cluster.resume(victim)
    load.wait_for_more()


def lose_zookeeper(cluster, load, victim, _rng):
    cluster.to_zookeeper[victim].cut()
    go_on_without(cluster, load, victim)
    cluster.to_zookeeper[victim].mend()


def lose_zookeeper_for_a_moment(cluster, load, victim, _rng):
    cluster.to_zookeeper[victim].cut()
    cluster.to_zookeeper[victim].mend()
    load.wait_for_more()


def all_lose_zookeeper(cluster, load, _victim, _rng):
    for proxy in cluster.to_zookeeper.values():
        proxy.cut()
    load.wait_for_more(1000)
    for proxy in cluster.to_zookeeper.values():
        proxy.mend()


def lose_followers(cluster, load, victim, rng):
    """No other broker reaches this one: where it is written to it is alone in sync, and so is out of work."""
    proxy = cluster.to_broker[victim]
    (proxy.cut if rng.random() < 0.5 else proxy.swallow_replies)()

    def is_alone():
        led = [isr for leader, isr in seen(cluster, victim) if leader == victim]
        # As in Kafka followers that have everything stay in sync: those of partitions that nobody has written to since.
        return not led or [victim] in led

    wait_until(is_alone, "it is alone")
    proxy.cut()
    proxy.mend()


def lose_two(cluster, load, victim, rng):
    """Nobody can write; nothing is lost."""
    other = rng.choice([each for each in BROKERS if each != victim])
    cluster.kill(victim)
    cluster.kill(other)
    cluster.start(victim)
    cluster.start(other)


MISFORTUNES = (
    die, die_with_the_disk, stop, sleep, nod, lose_zookeeper, lose_zookeeper_for_a_moment,
    all_lose_zookeeper, lose_followers, lose_two,
)  # fmt: skip


def seen(cluster, victim):
    """Partitions as a broker sees them that is not the victim."""
    return cluster.partitions("t", next(each for each in BROKERS if each != victim))


def go_on_without(cluster, load, victim):
    wait_until(
        lambda: all(leader not in (victim, -1) for leader, _ in seen(cluster, victim)),
        "others lead",
    )
    load.wait_for_more()


@only_in_make_chaos
def test_one_misfortune_after_another(cluster):
    seed = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(1 << 32))
    log.warning("CHAOS_SEED=%d", seed)
    rng = random.Random(seed)
    gaps = {}
    # A broker that sleeps may hold a request, or the question who leads: the producer is to give that up long before the records' own time is over.
    with Load(cluster, "t", timeout_s=5) as load:
        load.wait_for_more()
        for _ in range(ROUNDS):
            misfortune, victim = rng.choice(MISFORTUNES), rng.choice(BROKERS)
            log.info("%s: broker %d", misfortune.__name__, victim)
            load.take_longest_gap()
            misfortune(cluster, load, victim, rng)
            cluster.wait_healthy("t")
            load.wait_for_more()
            gap = load.take_longest_gap() * 1000 / SESSION_MS
            name = misfortune.__name__
            gaps[name] = max(gaps.get(name, 0), round(gap, 2))
    assert_nothing_lost(cluster, "t", load)
    assert_logs_equal(cluster, "t")
    log.warning("longest without an acknowledgement, in session time-outs: %s", gaps)
