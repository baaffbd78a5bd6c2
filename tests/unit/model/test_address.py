"""One address, one text."""

import pytest

from barnabas.model.address import usual


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8:0:0:0:0:0:7", "2001:db8::7"),
        ("fe80::1%eth0", "fe80::1"),
        ("*", "*"),
        ("", ""),
        ("host.example", "host.example"),
    ],
)
def test_the_usual_form(text: str, expected: str) -> None:
    assert usual(text) == expected
