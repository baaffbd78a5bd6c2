"""What the host disturbed is taken again: by what it took and not by the figure, and no longer than the patience lasts."""

import time

import pytest
from bench import quiet
from bench.measure import CORES, MachineTime
from bench.quiet import Patience


@pytest.fixture
def host(monkeypatch):
    return Host(monkeypatch)


class Host:
    """A clock and a host that takes shares of the time; `takes` holds those of the runs to come."""

    def __init__(self, monkeypatch):
        self.now_s = self.stolen_s = 0.0
        self.takes = []
        self.probes = []
        monkeypatch.setattr(quiet.time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(quiet.time, "sleep", self.pass_time)
        monkeypatch.setattr(quiet, "machine_time", lambda: MachineTime(0, self.stolen_s))
        monkeypatch.setattr(quiet, "host_takes", lambda: self.probes.pop(0) if self.probes else 0)

    def pass_time(self, seconds, share=0.0):
        self.now_s += seconds
        self.stolen_s += seconds * share * CORES

    def run(self):
        share = self.takes.pop(0)
        self.pass_time(10, share)
        return f"run that lost {share}"


def test_without_patience_every_run_counts(host):
    host.takes, host.probes = [0.5], [0.9]
    patience = Patience()
    assert patience.quietest(host.run) == "run that lost 0.5"
    assert (patience.again, host.probes) == (0, [0.9])


def test_a_disturbed_run_is_taken_again_until_one_is_quiet(host):
    host.takes = [0.5, 0.2, 0.01, 0.0]
    patience = Patience(100)
    assert patience.quietest(host.run) == "run that lost 0.01"
    assert (patience.again, patience.left_s, host.takes) == (2, 80, [0.0])


def test_the_quietest_counts_when_none_was_quiet(host):
    host.takes = [0.5, 0.2, 0.4, 0.3]
    assert Patience(1000).quietest(host.run) == "run that lost 0.2"


def test_a_run_begins_when_the_host_is_quiet(host):
    host.takes, host.probes = [0.0], [0.3, 0.2, 0.01]
    patience = Patience(100)
    patience.quietest(host.run)
    assert patience.left_s == 100 - 2 * quiet.PAUSE_S


def test_patience_ends(host):
    host.takes, host.probes = [0.5, 0.5, 0.0], [0.3] * 1000
    patience = Patience(5)
    assert patience.quietest(host.run) == "run that lost 0.5"
    assert patience.left_s <= 0
    assert patience.again == 0


def test_a_real_probe_keeps_the_machine_busy():
    before_s = time.process_time()
    assert quiet.host_takes() >= 0
    assert time.process_time() - before_s > quiet.PROBE_S / 20
