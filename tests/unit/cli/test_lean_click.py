"""That click starts without what no command uses, and that nobody else notices."""

import subprocess
import sys
import textwrap

import pytest


@pytest.mark.parametrize(
    "then",
    [
        pytest.param("assert not {'inspect', 'uuid'} & sys.modules.keys()", id="it is lean"),
        pytest.param(
            """
            import inspect, uuid
            assert inspect.signature(uuid.UUID) and inspect.__file__ and uuid.__file__
            """,
            id="others get the real ones",
        ),
        pytest.param(
            """
            import uuid
            known = uuid.uuid4()
            assert click.UUID.convert(known, None, None) is known
            assert click.UUID.convert(str(known), None, None) == known
            """,
            id="click's type of uuids",
        ),
        pytest.param(
            """
            option = click.Option(["--it"], help="\\n    one\\n      two\\n")
            assert option.help == "one\\n  two"
            assert click.Option(["--it"], help=" one line ").help == "one line "
            """,
            id="help of an option",
        ),
        pytest.param(
            """
            from click.testing import CliRunner
            from barnabas.cli.main import cli
            assert "Find events" in CliRunner().invoke(cli, ["logs", "search", "--help"]).output
            """,
            id="help of a command",
        ),
    ],
)
def test_in_a_process_of_its_own(then):
    program = "import sys\nimport barnabas.cli.main\nimport barnabas.cli.logs\nimport click\n"
    subprocess.run([sys.executable, "-c", program + textwrap.dedent(then)], check=True)
