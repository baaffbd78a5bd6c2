"""DescribeUserScramCredentials and AlterUserScramCredentials: who can log in by SCRAM."""

import hashlib

import pytest
from node_kit import NodeKit

from barnabas.core.sasl.scram_credential import derive
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

SALT = b"0123456789abcdef"


@pytest.fixture
def kit():
    return NodeKit()


def upsertion(name="alice", mechanism=1, iterations=4096, salt=SALT, salted=None):
    hash_name = "sha512" if mechanism == 2 else "sha256"
    if salted is None:
        salted = hashlib.pbkdf2_hmac(hash_name, b"hush", salt or b"x", 4096)
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


def deletion(name="alice", mechanism=1):
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(kit, *changes):
    request = AlterUserScramCredentialsRequest(
        deletions=[one for one in changes if isinstance(one, ScramCredentialDeletion)],
        upsertions=[one for one in changes if isinstance(one, ScramCredentialUpsertion)],
    )
    answer = kit.ask(request, 0)
    return {one.user: (ErrorCode(one.error_code).name, one.error_message) for one in answer.results}


def describe(kit, *names):
    users = [UserName(name=name) for name in names]
    answer = kit.ask(DescribeUserScramCredentialsRequest(users=users or None), 0)
    assert answer.error_code == 0
    return {
        one.user: (
            ErrorCode(one.error_code).name,
            {info.mechanism: info.iterations for info in one.credential_infos},
        )
        for one in answer.results
    }


def test_from_first_to_last(kit):
    assert alter(kit, upsertion(), upsertion(mechanism=2), upsertion("bob")) == {
        "alice": ("NONE", None),
        "bob": ("NONE", None),
    }
    assert describe(kit) == {"alice": ("NONE", {1: 4096, 2: 4096}), "bob": ("NONE", {1: 4096})}
    assert alter(kit, deletion(), upsertion("bob", iterations=8192)) == {
        "alice": ("NONE", None),
        "bob": ("NONE", None),
    }
    assert describe(kit, "bob", "alice") == {
        "bob": ("NONE", {1: 8192}),
        "alice": ("NONE", {2: 4096}),
    }


def test_what_is_kept_is_what_the_password_gives(kit):
    alter(kit, upsertion())
    assert kit.node.users.find("SCRAM-SHA-256", "alice") == derive(
        "SCRAM-SHA-256", "hush", SALT, 4096
    )


def test_users_outlive_the_broker(kit):
    alter(kit, upsertion("a/b%c"))
    kit.restart()
    assert describe(kit) == {"a/b%c": ("NONE", {1: 4096})}


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (upsertion(""), "UNACCEPTABLE_CREDENTIAL", "Username must not be empty"),
        (upsertion(iterations=4095), "UNACCEPTABLE_CREDENTIAL", "Too few iterations"),
        (upsertion(iterations=16385), "UNACCEPTABLE_CREDENTIAL", "Too many iterations"),
        (upsertion(mechanism=3), "UNSUPPORTED_SASL_MECHANISM", "Unknown SCRAM mechanism"),
        (upsertion(salted=b"short"), "UNACCEPTABLE_CREDENTIAL", "do not fit"),
        (upsertion(salt=b""), "UNACCEPTABLE_CREDENTIAL", "do not fit"),
        (deletion("nobody"), "RESOURCE_NOT_FOUND", "does not exist"),
    ],
)
def test_refusals(kit, change, code, words):
    (outcome,) = alter(kit, change).values()
    assert outcome[0] == code
    assert words in outcome[1]
    assert describe(kit) == {}


def test_twice_the_same_is_refused_whole(kit):
    assert (
        alter(kit, upsertion(), upsertion(), upsertion("bob"))["alice"][0] == "DUPLICATE_RESOURCE"
    )
    assert describe(kit) == {"bob": ("NONE", {1: 4096})}
    assert describe(kit, "bob", "bob") == {"bob": ("DUPLICATE_RESOURCE", {})}


def test_describing_nobody(kit):
    assert describe(kit, "nobody") == {"nobody": ("RESOURCE_NOT_FOUND", {})}
