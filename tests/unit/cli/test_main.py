"""The command line itself: help without the Kafka client, usage errors, what is missing."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from barnabas import __version__
from barnabas.cli.main import COMMANDS, cli, main
from barnabas.cli.topic import parse_assignment


def run(*arguments):
    return CliRunner().invoke(cli, arguments, prog_name="barnabas")


def test_help_lists_every_command():
    shown = run("--help")
    assert shown.exit_code == 0
    assert all(f"  {name} " in shown.output for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name):
    shown = run(name, "--help")
    assert shown.exit_code == 0
    assert shown.output.startswith(f"Usage: barnabas {name}")


def test_version():
    assert run("--version").output == f"barnabas {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tpoic"], "No such command 'tpoic'"),
        (["topic", "create"], "Missing argument 'NAME...'"),
        (["topic", "create", "t", "--partitions", "0"], "x>=1"),
        (["topic", "create", "t", "-c", "retention.ms"], "'retention.ms' is not name=value"),
        (["topic", "create", "t", "--assignment", "1:2,1", "-X", "a=b"], "same number of replicas"),
        (["topic", "alter", "t"], "nothing to change"),
        (["config", "set", "topic", "t"], "nothing to change"),
        (["config", "get", "cluster", "t"], "is not one of 'topic', 'broker'"),
        (["consume", "t", "--from", "yesterday"], "'yesterday' is no offset or time"),
        (["dlq", "redrive", "t", "--since", "bogus"], "'bogus' is no time; allowed: 1h, 30m"),
        (["dlq", "show", "t", "--since", "42"], "'42' is no time; allowed: 1h, 30m"),
        (["consume", "t", "--follow", "--to", "5"], "--follow has no end"),
        (["consume", "t", "--format", "%z"], "unknown directive '%z'"),
        (["consume", "t", "--format", "%s", "-o", "json"], "choose one"),
        (["produce", "t", "--header", "x"], "header 'x' is not name=value"),
        (["produce", "t", "--delimiter", ""], "must not be empty"),
        (["produce", "t", "-K", "\\q"], "unknown escape"),
        (["produce", "t", "--format", "json", "-K", ":"], "leave out the separators"),
        (["produce", "t", "--file", "/nowhere/at/all"], "does not exist"),
        (["--bootstrap", "a:b", "topic", "list"], "'a:b' is not HOST:PORT"),
        (["topic", "list", "-X", "foo"], "'foo' is not name=value"),
        (["topic", "list", "--timeout", "0"], "0"),
        (["topic", "list", "-o", "xml"], "'xml' is not one of"),
        (["completion", "tcsh"], "'tcsh' is not one of"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_says_why(arguments, said):
    done = run(*arguments)
    assert done.exit_code == 2
    assert said in done.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_the_tool(shell):
    assert "_BARNABAS_COMPLETE" in run("completion", shell).output


def test_assignment():
    assert parse_assignment("1:2,2:3") == [[1, 2], [2, 3]]


@pytest.mark.parametrize("arguments", [["--help"], ["up", "--help"], ["topic", "--help"]])
def test_the_kafka_client_is_imported_only_to_reach_a_broker(arguments):
    code = (
        "import sys; from barnabas.cli.main import cli\n"
        f"cli.main({arguments!r}, standalone_mode=False)\n"
        "assert not {'confluent_kafka', 'yaml'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_without_the_kafka_client_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(SystemExit) as stop:
        main(["topic", "list"])
    assert stop.value.code == 1
    assert "pip install 'barnabas[cli]'" in capsys.readouterr().err
