import socket

import click
import pytest

from barnabas.cli.connection import connect, parse_bootstrap
from barnabas.cli.failure import Failure
from barnabas.cli.options import ClientOptions

FILE = """
default = "laptop"

[laptop]
bootstrap = "laptop:1"

[staging]
bootstrap = "staging:2"

[staging.client]
"security.protocol" = "SASL_SSL"
"enable.ssl.certificate.verification" = false
"socket.timeout.ms" = 5000
"""


@pytest.fixture
def environ(tmp_path):
    (tmp_path / "barnabas").mkdir()
    (tmp_path / "barnabas" / "profiles.toml").write_text(FILE)
    return {"XDG_CONFIG_HOME": str(tmp_path)}


@pytest.fixture
def no_file(tmp_path):
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_without_anything_the_broker_is_on_this_machine(no_file):
    connection = connect(ClientOptions(), no_file)
    assert (connection.bootstrap, connection.output) == ("127.0.0.1:9092", "table")


@pytest.mark.parametrize(
    ("options", "variables", "expected"),
    [
        (ClientOptions(), {}, "laptop:1"),
        (ClientOptions(), {"BARNABAS_PROFILE": "staging"}, "staging:2"),
        (ClientOptions(), {"BARNABAS_BOOTSTRAP": "env:3"}, "env:3"),
        (ClientOptions(), {"BARNABAS_BOOTSTRAP": "env:3", "BARNABAS_PROFILE": "staging"}, "env:3"),
        (
            ClientOptions(settings={"bootstrap.servers": "x:4"}),
            {"BARNABAS_BOOTSTRAP": "env:3"},
            "x:4",
        ),
        (ClientOptions(profile="staging"), {"BARNABAS_BOOTSTRAP": "env:3"}, "staging:2"),
        (ClientOptions(bootstrap="b:5", profile="staging"), {"BARNABAS_BOOTSTRAP": "env:3"}, "b:5"),
    ],
)
def test_the_nearest_address_wins(options, variables, expected, environ):
    assert connect(options, {**environ, **variables}).bootstrap == expected


def test_a_profile_brings_settings_and_minus_x_changes_them(environ):
    options = ClientOptions(profile="staging", settings={"socket.timeout.ms": "1"})
    assert connect(options, environ).settings == {
        "security.protocol": "SASL_SSL",
        "enable.ssl.certificate.verification": "false",
        "socket.timeout.ms": "1",
    }


def test_an_address_by_itself_takes_no_settings_of_the_default_profile(environ):
    assert connect(ClientOptions(bootstrap="b:5"), environ).settings == {}


def test_an_unknown_profile_is_named_with_the_nearest(environ):
    with pytest.raises(click.UsageError, match="did you mean staging"):
        connect(ClientOptions(profile="stagign"), environ)


def test_a_broken_file_is_named(environ, tmp_path):
    (tmp_path / "barnabas" / "profiles.toml").write_text("[laptop")
    with pytest.raises(Failure, match=r"profiles\.toml"):
        connect(ClientOptions(), environ)


def test_options_after_the_verb_win_over_those_before_the_noun():
    outer = ClientOptions("out:1", None, {"a": "1", "b": "1"}, 3.0, "json")
    assert ClientOptions(settings={"b": "2"}).over(outer) == ClientOptions(
        "out:1", None, {"a": "1", "b": "2"}, 3.0, "json"
    )
    assert ClientOptions(profile="staging").over(outer).bootstrap is None
    assert ClientOptions("in:2", timeout=1.0, output="yaml").over(outer) == ClientOptions(
        "in:2", None, {"a": "1", "b": "1"}, 1.0, "yaml"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("kafka", [("kafka", 9092)]),
        ("a:1, b:2", [("a", 1), ("b", 2)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
        ("SASL_SSL://k:9", [("k", 9)]),
    ],
)
def test_addresses_are_read_as_librdkafka_does(text, expected):
    assert parse_bootstrap(text) == expected


@pytest.mark.parametrize("text", ["", ":9092", "a:", "a:x", "a:0", "a:70000", "a:1,"])
def test_other_addresses_are_refused_with_an_example(text):
    with pytest.raises(click.UsageError, match=r"127\.0\.0\.1:9092"):
        parse_bootstrap(text)


def test_nobody_there_is_said_at_once_with_the_next_step():
    with socket.socket() as unheard:  # bound and not listening: nobody can take the port meanwhile
        unheard.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unheard.getsockname()[1]}"
        with pytest.raises(Failure, match="no broker answered") as failed:
            connect(ClientOptions(bootstrap=address), {}).admin()
    assert address in failed.value.message
    assert "barnabas up" in failed.value.hint
