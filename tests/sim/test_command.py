"""What `make sim` calls."""

import subprocess
import sys

from barnabas.sim.run import RETENTION_LIKELIHOOD
from barnabas.sim.world import Scheduler


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "barnabas.sim", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_one_seed_tells_its_digest_and_faults():
    done = command("--seed", "5")
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("seed 5: ")
    assert "digest" in done.stdout
    assert "faults" in done.stdout


def test_a_trace_tells_every_event_with_its_time():
    lines = command("--seed", "5", "--trace").stdout.splitlines()
    assert lines[0].split() == ["0.000000", "start", "1"]
    assert any("request" in line for line in lines)


def test_a_range_ends_with_a_count_and_a_verdict():
    done = command("--seeds", "0:3")
    assert done.returncode == 0, done.stdout
    assert "3/3 seeds, 0 failed" in done.stdout
    assert "every promise held" in done.stdout


def test_what_is_no_range_is_refused_with_a_sentence():
    for text in ("100", "5:5", "a:b", ":"):
        done = command("--seeds", text)
        assert done.returncode == 2
        assert f"'{text}' is no range of seeds; one is 0:1000" in done.stderr


def test_groups_can_be_left_out():
    group_seed = "7"
    bare = command("--seed", group_seed, "--without-groups", "--trace")
    assert bare.returncode == 0, bare.stdout
    assert "g0m0" in command("--seed", group_seed, "--trace").stdout
    assert "g0m0" not in bare.stdout


def test_retention_can_be_left_out():
    expiring_seed = next(
        str(seed)
        for seed in range(100)
        if Scheduler(seed).chance("retention").random() < RETENTION_LIKELIHOOD
    )
    digests = {
        command("--seed", expiring_seed, *more).stdout for more in ((), ("--without-retention",))
    }
    assert len(digests) == 2


def test_it_wants_to_know_which_seeds():
    assert command().returncode == 2


def test_transactions_have_runs_of_their_own():
    done = command("--transactions", "--seeds", "0:2")
    assert done.returncode == 0, done.stdout
    assert "every promise held" in done.stdout
