"""A seed is a whole run: the same one everywhere."""

import pytest
from digest_kit import is_same_everywhere

from barnabas.sim.run import run_seed

#: Some have consumer groups: 7, 77 and 86.
SEEDS = (3, 7, 11, 42, 77, 86)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_seed_twice_is_the_same_run(seed):
    first, second = run_seed(seed), run_seed(seed)
    assert first.digest == second.digest
    assert first.events == second.events


def test_another_seed_is_another_run():
    assert len({run_seed(seed).digest for seed in SEEDS}) == len(SEEDS)


def test_the_run_does_not_depend_on_the_process():
    assert is_same_everywhere(run_seed, SEEDS)


def test_tracing_changes_nothing():
    notes = []
    traced = run_seed(SEEDS[0], on_note=lambda now_us, text: notes.append((now_us, text)))
    assert traced.digest == run_seed(SEEDS[0]).digest
    assert len(notes) > traced.events
    assert notes == sorted(notes, key=lambda note: note[0])
