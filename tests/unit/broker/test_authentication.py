"""The login of a connection: its states, its time, and what never gets past it."""

import json
import logging

import pytest
from node_kit import NodeKit

from barnabas.core.sasl.scram import ScramClient
from barnabas.core.sasl.scram_credential import derive
from barnabas.model.errors import ErrorCode
from barnabas.model.principal import ANONYMOUS, Principal
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest

SETTINGS = {
    # Simulated links come by the listener PLAINTEXT.
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.plaintext.plain.sasl.jaas.config": 'x.P required user_alice="hush" user_bob="hush";',
    "connection.failed.authentication.delay.ms": "700",
}
ALICE = b"\0alice\0hush"


def make_kit(**more):
    return NodeKit(**{**SETTINGS, **more})


@pytest.fixture
def kit():
    return make_kit()


def handshake(client, mechanism="PLAIN", version=1):
    return client.ask(SaslHandshakeRequest(mechanism=mechanism), version)


def authenticate(client, token, version=1):
    return client.ask(SaslAuthenticateRequest(auth_bytes=token), version)


def log_in(client, token=ALICE):
    assert handshake(client).error_code == 0
    answer = authenticate(client, token)
    assert answer.error_code == 0
    return answer


def link_of(kit):
    return list(kit.machine.links)[-1]


def test_before_during_and_after(kit):
    client = kit.client
    assert (
        client.ask(
            ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3
        ).error_code
        == 0
    )
    link = link_of(kit)
    assert link.principal == ANONYMOUS
    assert link.frame_bytes_max == 524_288
    answer = handshake(client)
    assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    assert authenticate(client, ALICE).session_lifetime_ms == 0
    assert link.principal == Principal("User", "alice")
    assert link.frame_bytes_max == 104_857_600
    assert client.ask(MetadataRequest(topics=[]), 1).brokers


def test_scram(kit):
    kit.node.users.put("carol", {})
    credential = derive("SCRAM-SHA-256", "hush", b"salt", 4096)
    kit.node.users._credentials["carol"] = {"SCRAM-SHA-256": credential}
    login = ScramClient("SCRAM-SHA-256", "carol", "hush", "nonce")
    handshake(kit.client, "SCRAM-SHA-256")
    first = authenticate(kit.client, login.next_token(None))
    final = authenticate(kit.client, login.next_token(bytes(first.auth_bytes)))
    login.next_token(bytes(final.auth_bytes))
    assert login.is_done
    assert link_of(kit).principal.name == "carol"


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (MetadataRequest(topics=[]), 1),
        (SaslAuthenticateRequest(auth_bytes=ALICE), 1),
    ],
)
def test_what_comes_before_a_login_closes(kit, request_, version):
    kit.client.send(request_, version)
    kit.run(lambda: kit.client.is_closed)
    assert not kit.client.answers


def test_nothing_but_the_login_comes_in_its_middle(kit):
    handshake(kit.client)
    kit.client.send(ApiVersionsRequest(), 0)
    kit.run(lambda: kit.client.is_closed)


def test_a_mechanism_that_is_not_offered_is_the_end(kit):
    answer = handshake(kit.client, "OAUTHBEARER")
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    kit.run(lambda: kit.client.is_closed)


def test_tokens_are_not_offered_before_there_are_keys():
    texts = {"jwks.endpoint.url": "https://keys", "expected.issuer": "i", "expected.audience": "a"}
    kit = make_kit(
        **{f"sasl.oauthbearer.{name}": text for name, text in texts.items()},
        **{"org.apache.kafka.sasl.oauthbearer.allowed.urls": "https://keys"},
    )
    log_in(kit.client)
    config = AlterableConfig(name="sasl.enabled.mechanisms", value="PLAIN,OAUTHBEARER")
    own = AlterConfigsResource(
        resource_type=4, resource_name=str(kit.node.broker_id), configs=[config]
    )
    (changed,) = kit.client.ask(IncrementalAlterConfigsRequest(resources=[own]), 1).responses
    assert changed.error_code == 0
    late = kit.new_client()
    answer = handshake(late, "OAUTHBEARER")
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN"]
    kit.run(lambda: late.is_closed)


@pytest.mark.parametrize("token", [b"\0alice\0guess", b"\0nobody\0guess"])
def test_a_refusal_takes_its_time_and_tells_nothing(kit, token, caplog):
    caplog.set_level(logging.DEBUG)
    handshake(kit.client)
    before_us = kit.scheduler.now_us
    answer = authenticate(kit.client, token)
    assert kit.scheduler.now_us - before_us >= 700_000
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"
    kit.run(lambda: kit.client.is_closed)
    assert "guess" not in caplog.text
    (line,) = [r.getMessage() for r in caplog.records if r.name == "barnabas.audit"]
    told = json.loads(line)
    assert (told["event"], told["mechanism"]) == ("login refused", "PLAIN")
    assert told["host"]
    assert token.split(b"\0")[1].decode() not in line, "names may be anything"


def test_bare_tokens_of_old_clients(kit):
    handshake(kit.client, version=0)
    sizes = []
    kit.client.on_frame = lambda _connection, data: sizes.append(len(data))
    kit.client.connection.send(ALICE)
    kit.run(lambda: sizes)
    assert sizes == [0]
    assert link_of(kit).principal.name == "alice"
    bad = kit.new_client()
    handshake(bad, version=0)
    bad.connection.send(b"\0alice\0guess")
    kit.run(lambda: bad.is_closed)


@pytest.mark.parametrize("version", [0, 1])
def test_a_login_that_breaks_is_refused_and_harms_nobody(kit, version, caplog):
    kit.node.users._credentials["carol"] = {"SCRAM-SHA-256": object()}  # whatever breaks
    token = ScramClient("SCRAM-SHA-256", "carol", "hush", "nonce").next_token(None)
    handshake(kit.client, "SCRAM-SHA-256", version)
    if version:
        assert authenticate(kit.client, token).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    else:
        kit.client.connection.send(token)
    kit.run(lambda: kit.client.is_closed)
    assert "a login failed" in caplog.text
    log_in(kit.new_client())


def test_logins_again_need_a_limit(kit):
    log_in(kit.client)
    assert handshake(kit.client).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert authenticate(kit.client, ALICE).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert kit.client.ask(MetadataRequest(topics=[]), 1).brokers


class TestLimited:
    """Logins that hold for ten seconds (KIP-368)."""

    @pytest.fixture
    def kit(self):
        return make_kit(**{"connections.max.reauth.ms": "10000"})

    def test_the_client_is_told_and_logs_in_again(self, kit):
        assert log_in(kit.client).session_lifetime_ms == 10_000
        for _ in range(3):
            kit.advance(8_000)
            log_in(kit.client)
            assert kit.client.ask(MetadataRequest(topics=[]), 1).brokers

    def test_once_its_time_is_over_nothing_is_answered(self, kit):
        log_in(kit.client)
        kit.advance(10_001)
        kit.client.send(MetadataRequest(topics=[]), 1)
        kit.run(lambda: kit.client.is_closed)

    def test_nor_by_requests_that_repeat(self, kit):
        log_in(kit.client)
        kit.create("t")
        for _ in range(3):
            assert kit.produce("t").error_code == 0
        assert link_of(kit).lanes is not None
        kit.advance(10_001)
        assert link_of(kit).lanes is None

    def test_nor_while_another_login_is_under_way(self, kit):
        log_in(kit.client)
        kit.create("t")
        for _ in range(3):
            assert kit.produce("t").error_code == 0
        kit.advance(2_000)
        handshake(kit.client)
        assert link_of(kit).lanes is None

    def test_a_late_login_is_still_one(self, kit):
        log_in(kit.client)
        kit.advance(20_000)
        log_in(kit.client)
        assert kit.client.ask(MetadataRequest(topics=[]), 1).brokers

    def test_not_sooner_than_after_a_second(self, kit):
        log_in(kit.client)
        kit.advance(100)
        assert handshake(kit.client).error_code == ErrorCode.ILLEGAL_SASL_STATE

    def test_nobody_becomes_somebody_else(self, kit):
        log_in(kit.client)
        kit.advance(2_000)
        handshake(kit.client)
        answer = authenticate(kit.client, b"\0bob\0hush")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        kit.run(lambda: kit.client.is_closed)

    def test_nor_by_another_mechanism(self, kit):
        log_in(kit.client)
        kit.advance(2_000)
        answer = handshake(kit.client, "SCRAM-SHA-256")
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        kit.run(lambda: kit.client.is_closed)


def test_on_an_open_listener_there_is_no_login():
    kit = NodeKit()
    assert handshake(kit.client).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert authenticate(kit.client, ALICE).error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_users_and_their_quotas_stand_at_one_place(kit):
    texts = {"producer_byte_rate": "1", "SCRAM-SHA-256": "nonsense"}
    kit.node.users.put("dave", texts)
    assert kit.node.users.mechanisms("dave") == {}
    assert json.dumps(kit.node.users.names()) == "[]"
