"""Figures of quotas in the text format of Prometheus."""

from node_kit import NodeKit

from barnabas.core.quota_table import DEFAULT, Entity
from barnabas.runtime import metrics_quotas


def samples(text):
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_nothing_is_told_while_nobody_has_a_quota():
    assert metrics_quotas.render(NodeKit().node) == ""


def test_what_is_used_and_how_long_it_was_waited_for_stands_under_kafkas_names():
    kit = NodeKit()
    kit.create("t")
    limits = {
        "producer_byte_rate": 1.0,
        "consumer_byte_rate": 10.0,
        "request_percentage": 5.0,
        "controller_mutation_rate": 2.0,
    }
    kit.node.quotas.put(Entity(None, DEFAULT), limits)
    kit.produce("t")
    told = samples(metrics_quotas.render(kit.node))
    who = '{user="",client_id=""}'
    assert float(told[f"kafka_server_produce_byte_rate{who}"]) > 0
    assert float(told[f"kafka_server_produce_throttle_time{who}"]) > 0
    assert told[f"kafka_server_fetch_byte_rate{who}"] == "0"
    assert told[f"kafka_server_fetch_throttle_time{who}"] == "0"
    assert told[f"kafka_server_request_request_time{who}"] == "0"
    assert told[f"kafka_server_controllermutation_mutation_rate{who}"] == "0"
    assert told[f"kafka_server_controllermutation_tokens{who}"] == "22"
