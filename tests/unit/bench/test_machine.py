import os
import resource
import subprocess
import sys

import pytest
from bench import machine

PRINT_CORES = [sys.executable, "-c", "import os; print(sorted(os.sched_getaffinity(0)))"]


def test_open_files_are_raised_to_what_is_allowed():
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert machine.allow_open_files() == limits[1]
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (limits[1], limits[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.skipif(not machine.can_pin(), reason="needs two cores")
def test_broker_and_client_get_a_core_each_and_everything_is_put_back():
    before = os.sched_getaffinity(0)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as broker:
        with machine.pinned(broker.pid):
            assert os.sched_getaffinity(broker.pid) == {machine.BROKER_CORE}
            client = subprocess.run(PRINT_CORES, capture_output=True, text=True, check=True)
            assert client.stdout == f"{[machine.CLIENT_CORE]}\n"
        assert os.sched_getaffinity(broker.pid) == before
        broker.kill()
    assert os.sched_getaffinity(0) == before
