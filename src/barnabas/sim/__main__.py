"""Run seeds from a shell: `--seed 123 --trace` replays one, `--seeds 0:1000` runs many."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from barnabas.sim.cluster_group_run import run_cluster_groups
from barnabas.sim.cluster_run import run_cluster
from barnabas.sim.cluster_transaction_run import run_cluster_transactions
from barnabas.sim.run import Verdict, run_seed
from barnabas.sim.transaction_run import run_transactions

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> int:
    """Run what was asked for; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m barnabas.sim", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="run this seed")
    which.add_argument(
        "--seeds", type=_seeds, metavar="START:END", help="run a range, END not included"
    )
    parser.add_argument("--trace", action="store_true", help="with --seed: tell all that happens")
    parser.add_argument("--without-groups", action="store_true", help="leave consumer groups out")
    parser.add_argument("--without-retention", action="store_true", help="let no records go")
    parser.add_argument("--transactions", action="store_true", help="run transactions instead")
    parser.add_argument("--groups", action="store_true", help="with --cluster: run consumer groups")
    parser.add_argument(
        "--cluster", action="store_true", help="run clusters instead; with transactions, too"
    )
    asked = parser.parse_args()
    with_groups, with_retention = not asked.without_groups, not asked.without_retention
    runs: dict[tuple[bool, bool], Callable[..., Verdict]] = {
        (False, False): partial(run_seed, with_groups=with_groups, with_retention=with_retention),
        (False, True): run_transactions,
        (True, False): run_cluster,
        (True, True): run_cluster_transactions,
    }
    run = runs[asked.cluster, asked.transactions]
    if asked.cluster and asked.groups:
        run = run_cluster_groups
    if asked.seed is not None:
        return _run_one(run, asked.seed, trace=asked.trace)
    return _run_many(run, asked.seeds)


def _seeds(text: str) -> range:
    start, _, end = text.partition(":")
    if not (start.isdigit() and end.isdigit() and int(start) < int(end)):
        raise argparse.ArgumentTypeError(f"'{text}' is no range of seeds; one is 0:1000")
    return range(int(start), int(end))


def _run_one(run: Callable[..., Verdict], seed: int, *, trace: bool) -> int:
    if trace:
        logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="    log: %(message)s")
    verdict = run(seed, on_note=_tell if trace else None)
    print(_sentence(verdict))  # noqa: T201
    return 1 if verdict.violation else 0


def _run_many(run: Callable[..., Verdict], seeds: range) -> int:
    failed, started = [], time.monotonic()
    for done, seed in enumerate(seeds, start=1):
        verdict = run(seed)
        if verdict.violation is not None:
            failed.append(seed)
            print(f"\r{_sentence(verdict)}")  # noqa: T201
        if sys.stdout.isatty() or done % 100 == 0 or done == len(seeds):
            rate = done / (time.monotonic() - started)
            told = f"\r{done}/{len(seeds)} seeds, {len(failed)} failed, {rate:.0f}/s"
            print(told, end="" if sys.stdout.isatty() else "\n", flush=True)  # noqa: T201
    print(f"\nfailed: {failed}" if failed else "\nevery promise held")  # noqa: T201
    return 1 if failed else 0


def _sentence(verdict: Verdict) -> str:
    faults = ", ".join(verdict.kinds) or "none"
    told = (
        f"seed {verdict.seed}: {verdict.events} events, digest {verdict.digest}, faults: {faults}"
    )
    return f"{told}\n  BROKEN {verdict.violation}" if verdict.violation else told


def _tell(now_us: int, text: str) -> None:
    print(f"{now_us / 1e6:10.6f} {text}")  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
