"""Changes of settings in a cluster: planned on what stands in the store, which other brokers change, too."""

import json

import pytest
from member_kit import ask, config_data, new_store, put, put_topic, start_member

from barnabas.model.errors import ErrorCode
from barnabas.ports import Create, Delete, SetData
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPIC, BROKER, GROUP = 2, 4, 32


@pytest.fixture
def store():
    store = new_store()
    put_topic(store, "t", (1,), (1,))
    return store


@pytest.fixture
def member(store):
    return start_member(store)


def stored(store, entity):
    return json.loads(store.tree[f"/config/{entity}"].data)["config"]


def set_(member, kind, name, texts):
    """Set some of its settings, and leave the others."""
    configs = [AlterableConfig(name=key, value=value) for key, value in texts.items()]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    answer = ask(member, IncrementalAlterConfigsRequest(resources=[resource]), 1)
    return ErrorCode(answer.responses[0].error_code)


@pytest.mark.parametrize(
    ("kind", "name", "entity", "theirs", "ours"),
    [
        (TOPIC, "t", "topics/t", {"retention.ms": "7"}, {"segment.ms": "5000"}),
        (BROKER, "1", "brokers/1", {"log.retention.ms": "7"}, {"log.roll.ms": "5000"}),
        (BROKER, "", "brokers/<default>", {"log.retention.ms": "7"}, {"log.roll.ms": "5000"}),
        (GROUP, "g", "groups/g", {"consumer.heartbeat.interval.ms": "6000"}, {"consumer.session.timeout.ms": "50000"}),
    ],
)  # fmt: skip
def test_what_another_broker_has_just_changed_stays(
    store, member, kind, name, entity, theirs, ours
):
    path = f"/config/{entity}"
    # No notice of it has come here.
    put(store, (SetData if path in store.tree else Create)(path, config_data(theirs)))
    assert set_(member, kind, name, ours) == ErrorCode.NONE
    assert stored(store, entity) == {**theirs, **ours}


def test_a_topic_that_another_broker_has_just_deleted_gets_no_settings(store, member):
    put(store, Delete("/config/topics/t"))
    assert set_(member, TOPIC, "t", {"retention.ms": "7"}) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "/config/topics/t" not in store.tree
