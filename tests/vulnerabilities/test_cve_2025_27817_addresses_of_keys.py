"""CVE-2025-27817: settings of a login could make a process read any file or address. An address for keys counts only if it is named once more among those that are
allowed, and is https or a file."""

import pytest
from vulnerability_kit import WITH_LOGIN

from barnabas.model.config.broker_config import BrokerConfig
from barnabas.model.config.types import ConfigProblem

URL = "sasl.oauthbearer.jwks.endpoint.url"
ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
TOKENS = {
    **WITH_LOGIN,
    "listener.name.safe.sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.expected.issuer": "https://issuer.example",
    "sasl.oauthbearer.expected.audience": "kafka",
}


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "https://169.254.169.254/latest/meta-data", "https://keys.example/"],
)
def test_an_address_that_is_not_allowed_is_not_read(url):
    with pytest.raises(ConfigProblem, match=r"allowed\.urls"):
        BrokerConfig({**TOKENS, URL: url})
    with pytest.raises(ConfigProblem, match=r"allowed\.urls"):
        BrokerConfig({**TOKENS, URL: url, ALLOWED: "https://keys.example/jwks"})


@pytest.mark.parametrize(
    "url", ["http://keys.example/jwks", "ftp://keys.example/jwks", "gopher://x", "/etc/passwd"]
)
def test_only_https_and_files_are_read_even_if_allowed(url):
    with pytest.raises(ConfigProblem, match="https"):
        BrokerConfig({**TOKENS, URL: url, ALLOWED: url})
