"""Two hundred simulated lives of a broker, and every seed that ever failed."""

from pathlib import Path

import pytest

from barnabas.sim.run import run_seed

SEEDS_PER_PUSH = 200


def kept_seeds():
    lines = (Path(__file__).parent / "seeds.txt").read_text().splitlines()
    return [int(line.split()[0]) for line in lines if line.strip() and not line.startswith("#")]


def run(seed, **how):
    verdict = run_seed(seed, **how)
    assert verdict.violation is None, (
        f"{verdict.violation}\nreplay with: make sim SEED={seed}, or python -m barnabas.sim --seed {seed} --trace"
    )


@pytest.mark.parametrize("seed", range(SEEDS_PER_PUSH))
def test_every_promise_holds(seed):
    run(seed)


@pytest.mark.parametrize("seed", [seed for seed in kept_seeds() if seed >= SEEDS_PER_PUSH])
def test_a_seed_that_failed_once_holds(seed):
    run(seed)


@pytest.mark.parametrize("seed", kept_seeds())
def test_a_seed_that_failed_once_holds_without_retention(seed):
    """Most of them failed before records went by themselves."""
    run(seed, with_retention=False)


@pytest.mark.parametrize("seed", kept_seeds())
def test_a_seed_that_failed_once_holds_without_groups(seed):
    """Most of them failed before there were groups."""
    run(seed, with_groups=False, with_retention=False)
