"""The settings of the controller, as one value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """Kafka's defaults; the host fills in what the broker is set to."""

    unclean_leader_election_enable: bool = False  # unclean.leader.election.enable
    delete_topic_enable: bool = True  # delete.topic.enable
    leader_imbalance_per_broker_percentage: int = 10  # leader.imbalance.per.broker.percentage
