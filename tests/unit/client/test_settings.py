"""Settings by Kafka's names, and a sentence for what cannot be."""

import pickle
import re

import pytest

from barnabas.client.setting_names import WITHOUT_EFFECT
from barnabas.client.settings import ClientSettings, SettingError

HERE = {"bootstrap.servers": "a:1"}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def parse(**more):
    return ClientSettings.parse(
        HERE | {name.replace("_", "."): value for name, value in more.items()}
    )


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("a:1", (("a", 1),)),
        ("a:1, b", (("a", 1), ("b", 9092))),
        ("SSL://[::1]:7,[::2]", (("::1", 7), ("::2", 9092))),
    ],
)
def test_addresses(text, addresses):
    assert ClientSettings.parse({"bootstrap.servers": text}).bootstrap == addresses


@pytest.mark.parametrize("text", ["", "a:0", "a:70000", "a:b", ":9092", "a,,b"])
def test_no_addresses(text):
    with pytest.raises(SettingError, match=r"is not HOST:PORT|missing"):
        ClientSettings.parse({"bootstrap.servers": text})


def test_there_must_be_an_address():
    with pytest.raises(SettingError, match=r"bootstrap\.servers is missing"):
        ClientSettings.parse({})


def test_both_spellings():
    one = parse(
        sasl_mechanisms="PLAIN",
        security_protocol="sasl_plaintext",
        sasl_username="u",
        sasl_password="p",
    )
    assert (one.sasl_mechanism, one.security_protocol) == ("PLAIN", "SASL_PLAINTEXT")
    assert one.uses_sasl
    assert not one.uses_tls
    assert parse(fetch_message_max_bytes="7").max_partition_fetch_bytes == 7


def test_settings_of_other_clients_are_let_pass():
    assert parse(max_poll_records="1", key_deserializer="x", group_id="g") == parse()


def test_an_unknown_name_is_told_with_the_nearest():
    with pytest.raises(
        SettingError, match=r"no client setting 'sasl\.usrname'; did you mean 'sasl\.username'"
    ):
        parse(sasl_usrname="x")
    with pytest.raises(SettingError, match=r"no client setting 'qqq'$"):
        parse(qqq="x")
    assert ClientSettings.parse(HERE | {"qqq": "x"}, lenient=True) == parse()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("security_protocol", "TLS", "allowed are 'PLAINTEXT'"),
        ("request_timeout_ms", "soon", "a number from 1"),
        ("request_timeout_ms", "0", "a number from 1"),
        ("isolation_level", "none", "allowed are 'read_uncommitted', 'read_committed'"),
        ("max_in_flight_requests_per_connection", "6", "from 1 to 5"),
        ("ssl_truststore_location", "/x/trust.jks", "PEM"),
        ("ssl_keystore_type", "JKS", "only PEM"),
        ("ssl_key_pem", "-----BEGIN", "ssl.key.location"),
        ("enable_ssl_certificate_verification", "maybe", "allowed are 'true', 'false'"),
        ("compression_type", "rar", "allowed are"),
    ],
)
def test_values_that_cannot_be(name, value, words):
    with pytest.raises(SettingError, match=words):
        parse(**{name: value})


def test_a_login_must_be_whole():
    with pytest.raises(SettingError, match=r"needs sasl\.mechanism"):
        parse(security_protocol="SASL_SSL")
    with pytest.raises(SettingError, match=r"needs sasl\.username and sasl\.password"):
        parse(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_username="u")
    with pytest.raises(SettingError, match=r"token\.endpoint\.url"):
        parse(security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER")


def test_jaas_gives_name_and_password():
    one = parse(
        security_protocol="SASL_SSL", sasl_mechanism="PLAIN",
        sasl_jaas_config=f'{PLAIN} required username="u" password="p \\"q\\"";',
    )  # fmt: skip
    assert (one.sasl_username, one.sasl_password) == ("u", 'p "q"')
    # What is said plainly wins, wherever it stands.
    more = parse(sasl_username="v", sasl_jaas_config=f"{PLAIN} required username=u password=p;")
    assert (more.sasl_username, more.sasl_password) == ("v", "p")


@pytest.mark.parametrize(
    "text",
    [
        "", "hush", f'{PLAIN} required username="u" password="hush"', f"{PLAIN} username=hush;",
        f'{PLAIN} required username="u" password "hush";', f'{PLAIN} required username="hush;', f"{PLAIN} required a==;",
    ],
)  # fmt: skip
def test_jaas_that_is_none_is_told_without_the_secret(text):
    with pytest.raises(
        SettingError, match=r"sasl\.jaas\.config is not what Kafka expects"
    ) as raised:
        parse(sasl_jaas_config=text)
    assert "hush" not in str(raised.value)


def test_secrets_are_not_shown():
    one = parse(
        sasl_password="hush-1", ssl_key_password="hush-2", sasl_oauthbearer_client_secret="hush-3"
    )
    assert "hush" not in repr(one)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.replace(client_id="me").client_id == "me"


def test_names_are_single_words():
    """Two that lack a comma between them would be one that nobody writes."""
    assert [name for name in sorted(WITHOUT_EFFECT) if not re.fullmatch("[a-z0-9_.]+", name)] == []
