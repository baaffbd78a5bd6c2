import os
import subprocess
import sys
import time

import pytest
from bench import measure


def test_stat_lines_may_hold_a_bracket_in_the_name():
    line = "42 (a) b) c) S 1 42 42 0 -1 4194560 1 2 3 4 150 50 7 8 20 0 1 0 9 10 11"
    assert measure.stat_cpu_seconds(line) == 200 / measure.TICKS_PER_S


def test_memory_in_megabytes_of_ten_to_the_six():
    text = "Name:\tx\nVmHWM:\t    2000 kB\nVmRSS:\t    1000 kB\n"
    assert measure.parse_status(text) == pytest.approx((1.024, 2.048))


def test_machine_time_counts_neither_idle_nor_stolen_as_busy():
    text = "cpu  10 20 30 1000 2000 40 50 60 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"
    busy, stolen = measure.parse_machine_time(text)
    assert (busy, stolen) == (150 / measure.TICKS_PER_S, 60 / measure.TICKS_PER_S)


def test_the_clock_of_a_process_is_its_cpu_time():
    before = time.process_time()
    found = measure.cpu_seconds(os.getpid())
    assert before <= found <= time.process_time()


BUSY = "import time\nwhile time.process_time() < 0.1: pass\nprint(flush=True)\ninput()"


def test_processes_count_with_who_started_them_while_they_run_and_after():
    before = measure.children_cpu_seconds(os.getpid())
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", BUSY], **pipes) as child:
        child.stdout.readline()
        running = measure.children_cpu_seconds(os.getpid())
        child.communicate(b"\n")
    # The kernel tells whole hundredths, of user and of system time: some are lost.
    assert running - before > 0.05
    assert measure.children_cpu_seconds(os.getpid()) - before > 0.05


def test_a_watch_sees_what_its_process_used():
    with measure.Watch(os.getpid()) as watch:
        start = time.process_time()
        while time.process_time() - start < 0.02:
            pass
    assert watch.cpu_s >= 0.02
    assert watch.wall_s >= watch.cpu_s * 0.5
    assert watch.noise.others >= 0
