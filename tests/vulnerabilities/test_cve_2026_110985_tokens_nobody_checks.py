"""CVE-2026-110985, CVE-2026-33557: a broker that offered OAUTHBEARER without keys took any token. Here it does not start, and a token that does not
prove itself is refused (`tests/unit/core/sasl/test_token.py` has the whole list)."""

import base64
import json

import pytest
from vulnerability_kit import WITH_LOGIN

from barnabas.core.sasl.mechanism import LoginRefused
from barnabas.core.sasl.oauthbearer import OAuthBearerServer
from barnabas.core.sasl.token import TokenCheck, TokenRules
from barnabas.model.config.broker_config import BrokerConfig
from barnabas.model.config.types import ConfigProblem

NEEDED = {
    "sasl.oauthbearer.jwks.endpoint.url": "https://keys.example/jwks",
    "sasl.oauthbearer.expected.issuer": "https://issuer.example",
    "sasl.oauthbearer.expected.audience": "kafka",
    "org.apache.kafka.sasl.oauthbearer.allowed.urls": "https://keys.example/jwks",
}
TOKENS = {**WITH_LOGIN, "listener.name.safe.sasl.enabled.mechanisms": "OAUTHBEARER"}


def test_with_all_that_is_needed_the_settings_are_taken():
    BrokerConfig({**TOKENS, **NEEDED})


@pytest.mark.parametrize("missing", NEEDED)
def test_without_keys_issuer_or_audience_there_is_no_broker(missing):
    with pytest.raises(ConfigProblem, match="oauthbearer"):
        BrokerConfig(
            {**TOKENS, **{name: value for name, value in NEEDED.items() if name != missing}}
        )


def part(content):
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


CLAIMS = {
    "sub": "admin",
    "iss": "https://issuer.example",
    "aud": "kafka",
    "exp": 4_000_000_000,
    "iat": 1,
}


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none"},
        {"alg": "None"},
        {"alg": "HS256", "kid": "k"},
        {"alg": "RS256", "kid": "unknown"},
        {},
    ],
    ids=str,
)
@pytest.mark.parametrize("signature", ["", "AAAA"])
def test_a_token_that_proves_nothing_lets_nobody_in(header, signature):
    rules = TokenRules("https://issuer.example", ("kafka",), 0, "sub")
    server = OAuthBearerServer(TokenCheck(rules, {}.get).check)
    token = f"{part(header)}.{part(CLAIMS)}.{signature}"
    try:
        server.answer(f"n,,\x01auth=Bearer {token}\x01\x01".encode(), 1_700_000_000_000)
        with pytest.raises(LoginRefused):  # KIP-255: told first, refused then
            server.answer(b"\x01", 1_700_000_000_000)
    except LoginRefused:
        pass
    assert server.identity is None
