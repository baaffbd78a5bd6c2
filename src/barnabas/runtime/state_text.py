"""What a broker has in memory, as lines for the log of a process that ends because it is wrong.

Job: the numbers that tell how its partitions stand. Must not change anything, nor name records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.broker.node import Node
    from barnabas.broker.replicas import Replica

#: So many partitions are written down.
REPLICAS_MAX: Final = 1000


def state_text(node: Node) -> str:
    """Write down the state of a broker, a line for each partition."""
    return "\n".join(_lines(node))


def _lines(node: Node) -> Iterator[str]:
    replicas = list(node.replicas)
    office = node.office
    yield (
        f"broker {node.broker_id}, {len(replicas)} partitions,"
        f" {'no controller' if office is None else f'controller of epoch {office.epoch}'}"
    )
    for replica in replicas[:REPLICAS_MAX]:
        yield _line(replica)
    if len(replicas) > REPLICAS_MAX:
        yield f"and {len(replicas) - REPLICAS_MAX} more"


def _line(replica: Replica) -> str:
    state, name = replica.state, f"{replica.key.topic}-{replica.key.partition}"
    if replica.offline:
        return f"{name}: offline"
    log = replica.log
    return (
        f"{name} of topic id {replica.topic.id.hex()}: leader {state.leader}, leader epoch {state.leader_epoch},"
        f" replicas {list(state.replicas)}, in sync {list(state.in_sync)}, high watermark {state.high_watermark},"
        f" log {log.log_start_offset} to {log.log_end_offset}, epochs up to {log.epochs.latest},"
        f" synced to {log.recovery_point}"
    )
