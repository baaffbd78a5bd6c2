"""The gate: rules take effect at once and everywhere, denials are told, and nothing outlives the rule that allowed it."""

import logging

import pytest
from acl_kit import AUTHORIZER, AclKit, audited, creation
from node_kit import NodeKit

from barnabas.broker import gate as gates
from barnabas.model.acl import Operation, PatternType, Permission, ResourceType
from barnabas.model.errors import ErrorCode
from barnabas.wire import batch
from barnabas.wire.batch import Record
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
def kit():
    made = AclKit()
    for name in ("t", "u"):
        made.create(name)
    return made


def produce(*names, acks=-1):
    records = [Record(0, 1_000, b"k", b"v", ())]
    topics = [
        TopicProduceData(
            name=name, partition_data=[PartitionProduceData(index=0, records=batch.build(records))]
        )
        for name in names
    ]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)


def codes(answer):
    return {
        topic.name: partition.error_code
        for topic in answer.responses
        for partition in topic.partition_responses
    }


def commit(*names):
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
            )
            for name in names
        ],
    )


def test_a_node_without_an_authorizer_has_no_gate():
    assert NodeKit().node.gate is None


def test_who_has_no_rule_may_nothing_and_neighbours_are_served(kit):
    alice = kit.new_user("alice")
    assert codes(alice.ask(produce("t", "u"), 9)) == {"t": DENIED, "u": DENIED}
    kit.allow(creation(Operation.WRITE))
    assert codes(alice.ask(produce("t", "u", "nowhere"), 9)) == {
        "t": 0, "u": DENIED, "nowhere": DENIED,
    }  # fmt: skip
    assert codes(kit.ask(produce("nowhere"), 9)) == {
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }


@pytest.mark.parametrize(
    ("host", "code"), [("10.0.0.7", 0), ("::ffff:10.0.0.7", 0), ("10.0.0.8", DENIED)]
)
def test_hosts_are_those_of_connections(kit, host, code):
    alice = kit.new_user("alice")
    link = kit.machine.link_of(alice.connection)
    link.peer_host = host
    kit.allow(creation(Operation.WRITE, host="10.0.0.7"))
    assert codes(alice.ask(produce("t"), 9)) == {"t": code}


def test_a_lane_does_not_outlive_the_permission_that_opened_it(kit):
    alice = kit.new_user("alice")
    kit.allow(creation(Operation.WRITE))
    before = kit.node.metrics.requests[0]
    for _ in range(3):
        assert codes(alice.ask(produce("t"), 9)) == {"t": 0}
    link = kit.machine.link_of(alice.connection)
    assert link.lanes is not None
    assert kit.node.metrics.requests[0] == before + 3
    assert kit.revoke(principal_filter="User:alice") == 1
    assert codes(alice.ask(produce("t"), 9)) == {"t": DENIED}
    assert codes(alice.ask(produce("t"), 9)) == {"t": DENIED}


def test_lanes_are_not_shared_with_those_who_may_not(kit):
    kit.allow(creation(Operation.WRITE))
    alice, bob = kit.new_user("alice"), kit.new_user("bob")
    for _ in range(2):
        assert codes(alice.ask(produce("t"), 9)) == {"t": 0}
    kit.allow(creation(Operation.WRITE, name="u", principal="User:bob"))
    for _ in range(2):  # bob has lanes of the same form
        assert codes(bob.ask(produce("u"), 9)) == {"u": 0}
    for _ in range(2):
        assert codes(alice.ask(produce("t"), 9)) == {"t": 0}
    assert codes(bob.ask(produce("t"), 9)) == {"t": DENIED}


def test_a_request_of_which_a_part_is_denied_opens_no_lane(kit):
    alice = kit.new_user("alice")
    kit.allow(creation(Operation.WRITE))
    for order in (("u", "t"), ("t", "u")):
        for _ in range(3):
            assert codes(alice.ask(produce(*order), 9)) == {"t": 0, "u": DENIED}


def test_commits_go_the_same_way(kit):
    alice = kit.new_user("alice")
    kit.allow(creation(Operation.READ), creation(Operation.READ, ResourceType.GROUP, "g"))

    def told(*names):
        answer = alice.ask(commit(*names), 8)
        return {one.name: one.partitions[0].error_code for one in answer.topics}

    kit.node.coordinators.start()
    kit.run(lambda: told("t")["t"] != ErrorCode.COORDINATOR_NOT_AVAILABLE)
    for _ in range(3):
        assert told("t") in ({"t": 0}, {"t": ErrorCode.NOT_COORDINATOR})
        assert told("u", "t")["u"] == DENIED
    kit.revoke(resource_type_filter=ResourceType.GROUP)
    assert told("t") == {"t": ErrorCode.GROUP_AUTHORIZATION_FAILED}


def test_without_an_answer_a_denial_ends_the_connection_and_the_rest_is_kept(kit):
    alice = kit.new_user("alice")
    kit.allow(creation(Operation.WRITE))
    alice.send(produce("t", "u", acks=0), 9)
    kit.run(lambda: alice.is_closed)
    assert kit.offset("t", -1) == 1
    assert kit.offset("u", -1) == 0


def test_a_session_does_not_outlive_a_permission(kit):
    kit.produce("t")
    alice = kit.new_user("alice")
    kit.allow(creation(Operation.READ))
    opening = kit.fetch_request("t", 0)
    opening.session_epoch = 0
    first = alice.ask(opening, 12)
    assert first.responses[0].partitions[0].error_code == 0
    kit.revoke(principal_filter="User:alice")
    again = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_id=first.session_id, session_epoch=1
    )
    answer = alice.ask(again, 12)
    assert answer.responses[0].partitions[0].error_code == DENIED
    assert not answer.responses[0].partitions[0].records


def test_a_reader_who_waits_is_judged_again(kit):
    alice = kit.new_user("alice")
    kit.allow(creation(Operation.READ))
    alice.send(kit.fetch_request("t", 0, max_wait_ms=5_000), 12)
    kit.advance(100)
    kit.revoke(principal_filter="User:alice")
    kit.produce("t")
    kit.run(lambda: alice.answers)
    assert alice.answers[0].responses[0].partitions[0].error_code == DENIED


def test_prefixes_and_denials_across_a_crash(kit):
    alice = kit.new_user("alice")
    kit.allow(
        creation(Operation.ALL, name="*", principal="User:*"),
        creation(
            Operation.WRITE, name="u", permission=Permission.DENY, pattern=PatternType.PREFIXED
        ),
    )
    assert codes(alice.ask(produce("t", "u"), 9)) == {"t": 0, "u": DENIED}
    kit.crash()
    alice = kit.new_user("alice")
    assert codes(alice.ask(produce("t", "u"), 9)) == {"t": 0, "u": DENIED}


def test_answers_that_are_remembered_are_bounded(kit, monkeypatch):
    monkeypatch.setattr(gates, "ANSWERS_MAX", 2)
    alice = kit.new_user("alice")
    kit.allow(creation(Operation.WRITE))
    assert codes(alice.ask(produce("t", "u", "v", "w"), 9)) == {
        "t": 0, "u": DENIED, "v": DENIED, "w": DENIED,
    }  # fmt: skip
    assert len(kit.node.gate._answers) <= 2


def test_nobody_fills_the_memory_with_long_names(kit, caplog):
    caplog.set_level(logging.INFO, "barnabas.audit")
    eve, longest = kit.new_user("eve"), 30_000
    names = [f"{number}-{'x' * longest}" for number in range(3)]
    assert set(codes(eve.ask(produce(*names), 9)).values()) == {DENIED}
    assert not [key for key in kit.node.gate._answers if len(key[-1]) > longest]
    lines = audited(caplog, "denied")
    assert [line["resource"][:17] for line in lines] == [
        f"Topic:LITERAL:{number}-x" for number in range(3)
    ]
    assert max(len(line["resource"]) for line in lines) < 1000


def test_open_without_rules():
    kit = AclKit(allow_everyone_if_no_acl_found="true")
    for name in ("t", "u"):
        kit.create(name)
    alice = kit.new_user("alice")
    kit.allow(creation(Operation.READ, name="u", principal="User:bob"))
    assert codes(alice.ask(produce("t", "u"), 9)) == {"t": 0, "u": DENIED}


def test_the_new_authorizers_name_means_the_same():
    named = AclKit(authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer")
    assert named.node.gate is not None
    assert named.node.config.get("authorizer.class.name") != AUTHORIZER


# The audit log


def test_denials_are_told_each_time_with_who_what_and_why(kit, caplog):
    caplog.set_level(logging.INFO, "barnabas.audit")
    alice = kit.new_user("alice")
    kit.allow(creation(Operation.WRITE, name="u", permission=Permission.DENY))
    for _ in range(2):
        alice.ask(produce("t", "u"), 9)
    first, second, *again = audited(caplog, "denied")
    assert first["principal"] == "User:alice"
    assert first["host"]
    assert (first["request"], first["operation"]) == ("Produce", "Write")
    assert (first["resource"], first["rule"]) == ("Topic:LITERAL:t", "no rule on the resource")
    assert second["rule"] == "Deny User:alice Write from * on Topic:LITERAL:u"
    assert again == [first, second]


def test_changes_are_told(kit, caplog):
    caplog.set_level(logging.INFO, "barnabas.audit")
    kit.allow(creation(Operation.WRITE, principal="User:a\nb"))
    kit.revoke(resource_name_filter="t")
    made, gone = audited(caplog, "changed")
    assert made["principal"] == "User:root"
    assert (made["action"], made["resource"]) == ("create", "Acl:Topic:LITERAL:t")
    assert made["entry"] == "Allow User:a\nb Write from *"
    assert gone["action"] == "delete"
    assert all(
        "\n" not in record.getMessage()
        for record in caplog.records
        if record.name == "barnabas.audit"
    )


def test_what_is_left_out_of_a_list_is_no_denial(kit, caplog):
    caplog.set_level(logging.INFO, "barnabas.audit")
    alice = kit.new_user("alice")
    assert alice.ask(MetadataRequest(topics=None), 12).topics == []
    assert not audited(caplog, "denied")
