"""A bounded run of tools/fuzz.py: the same requests on every machine. `make fuzz` runs it for long, with other seeds."""

import pytest
from fuzz import ClusterFuzzer, NodeFuzzer, fuzz_process


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_node_takes_whatever_comes(seed):
    counts = NodeFuzzer(seed).run(requests=10_000)
    assert counts.answered > 2000, counts
    assert counts.refused > 2000, counts
    assert counts.appended > 200, counts


@pytest.mark.parametrize("seed", [1, 5])
def test_a_member_of_a_cluster_takes_whatever_comes(seed):
    counts = ClusterFuzzer(seed).run(requests=700)
    assert counts.answered > 200, counts


def test_a_process_takes_whatever_comes_over_its_sockets():
    counts = fuzz_process(4, requests=800)
    assert counts.answered > 500, counts
