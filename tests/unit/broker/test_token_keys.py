"""Keys of tokens: read at the start, again later, and when a token names one that is not known."""

import json

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from node_kit import NodeKit

from barnabas.broker.tasks import drive
from barnabas.broker.token_keys import TokenKeys
from barnabas.core.sasl.oauthbearer import TokenRefused

URL = "https://issuer/keys"
SETTINGS = {
    "sasl.oauthbearer.jwks.endpoint.url": URL,
    "sasl.oauthbearer.expected.issuer": "i",
    "sasl.oauthbearer.expected.audience": "a,b",
}


class Source:
    """What stands at the address."""

    def __init__(self, *ids):
        self.keys = {}
        self.problem = None
        self.reads = 0
        for key_id in ids:
            self.add(key_id)

    def add(self, key_id):
        self.keys[key_id] = ec.generate_private_key(ec.SECP256R1())

    def read(self, url):
        assert url == URL
        self.reads += 1
        if self.problem is not None:
            raise self.problem
        listed = [
            json.loads(ECAlgorithm.to_jwk(key.public_key())) | {"kid": key_id}
            for key_id, key in self.keys.items()
        ]
        return json.dumps({"keys": listed}).encode()

    def token(self, key_id, now_ms):
        claims = {"sub": "alice", "iss": "i", "aud": "b", "exp": now_ms // 1000 + 60}
        return jwt.encode(claims, self.keys[key_id], "ES256", headers={"kid": key_id})


@pytest.fixture
def source():
    return Source("one")


@pytest.fixture
def kit(source):
    kit = NodeKit(**SETTINGS)
    kit.node.authentication.read_url = source.read
    return kit


def start(kit):
    ended = []
    keys = TokenKeys(kit.node, "PLAINTEXT")
    drive(keys.start(), lambda _result, problem: ended.append(problem))
    kit.run(lambda: ended)
    if ended[0] is not None:
        raise ended[0]
    return keys


def check(kit, keys, source, key_id):
    now_ms = kit.node.world.clock.now_ms()
    return keys._check.check(source.token(key_id, now_ms), now_ms).name


def test_a_known_key(kit, source):
    assert check(kit, start(kit), source, "one") == "alice"


def test_no_keys_no_start(kit, source):
    source.keys.clear()
    with pytest.raises(OSError, match="cannot be used"):
        start(kit)
    source.problem = OSError("nobody there")
    with pytest.raises(OSError, match="nobody there"):
        start(kit)


def test_a_new_key_is_looked_for_but_not_at_every_token(kit, source):
    keys = start(kit)
    source.add("two")
    kit.advance(10_001)
    for _ in range(5):
        with pytest.raises(TokenRefused):
            check(kit, keys, source, "two")
    kit.run(lambda: source.reads == 2)
    kit.advance(100)
    assert check(kit, keys, source, "two") == "alice"
    assert source.reads == 2


def test_keys_are_read_again_and_stay_when_that_fails(kit, source):
    keys = start(kit)
    source.problem = OSError("nobody there")
    kit.advance(3_600_100)
    assert source.reads >= 2
    assert check(kit, keys, source, "one") == "alice"
    source.problem = None
    source.keys.clear()
    source.add("three")
    kit.advance(3_600_100)
    assert check(kit, keys, source, "three") == "alice"
