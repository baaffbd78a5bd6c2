"""Whether a seed's run is the same in another process, where sets have another order."""

import os
import subprocess
import sys


def digests_under(hash_seed, run, seeds):
    """The digests of these seeds' runs in one process of its own."""
    code = f"from {run.__module__} import {run.__name__} as run\nprint(*(run(seed).digest for seed in {seeds}))"
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return done.stdout.split()


def is_same_everywhere(run, seeds):
    """Tell whether two other processes have the digests that this one has."""
    here = [run(seed).digest for seed in seeds]
    return here == digests_under("1", run, seeds) == digests_under("4242", run, seeds)
