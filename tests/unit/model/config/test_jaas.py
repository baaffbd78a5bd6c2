"""Java's login modules as text."""

import pytest

from barnabas.model.config.jaas import parse_jaas


def test_module_and_options() -> None:
    jaas = parse_jaas(
        'org.x.PlainLoginModule required username="ad min" password="a\\"b;=" user_alice=secret user_b.c="d";'
    )
    assert jaas.module == "org.x.PlainLoginModule"
    assert jaas.options["username"] == "ad min"
    assert jaas.options["password"] == 'a"b;='
    assert jaas.users == {"alice": "secret", "b.c": "d"}


def test_over_several_lines() -> None:
    assert parse_jaas('\n x.Y requisite\n  a="b"\n ;\n').options == {"a": "b"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hush",
        "x.Y maybe hush=1;",
        "x.Y required hush",
        'x.Y required a="hush',
        'x.Y required a="hush"; z.Z required;',
    ],
)
def test_no_module_and_no_secret_in_the_words(text: str) -> None:
    with pytest.raises(ValueError, match="expected") as caught:
        parse_jaas(text)
    assert "hush" not in str(caught.value)
