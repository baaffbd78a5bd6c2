"""Principals and their text."""

import pytest

from barnabas.model.principal import ANONYMOUS, Principal, parse_principal


@pytest.mark.parametrize(
    ("text", "principal"),
    [
        ("User:alice", Principal("User", "alice")),
        ("User:CN=a:b,O=c", Principal("User", "CN=a:b,O=c")),
        ("User:ANONYMOUS", ANONYMOUS),
    ],
)
def test_text_and_back(text: str, principal: Principal) -> None:
    assert parse_principal(text) == principal
    assert str(principal) == text


@pytest.mark.parametrize("text", ["", "alice", "User:", ":alice"])
def test_no_principal(text: str) -> None:
    with pytest.raises(ValueError, match="User:alice"):
        parse_principal(text)
