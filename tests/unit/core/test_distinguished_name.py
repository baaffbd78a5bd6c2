"""Names in certificates, as Kafka writes and maps them."""

import pytest

from barnabas.core.distinguished_name import MappingRules, subject_text

ALICE = (
    (("countryName", "AT"),),
    (("organizationName", "Castle, Ltd."), ("organizationalUnitName", "a+b")),
    (("commonName", " #al=ice "),),
)


def test_text_is_javas() -> None:
    assert subject_text(ALICE) == r"CN=\ #al=ice\ ,O=Castle\, Ltd.+OU=a\+b,C=AT"


def test_what_has_no_short_name_is_written_by_number() -> None:
    assert subject_text(((("emailAddress", "a@b"),),)) == "1.2.840.113549.1.9.1=#1603614062"
    long = subject_text(((("title", "x" * 200),),))
    assert long.startswith("2.5.4.12=#0c81c8")


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        ("", "CN=a", "CN=a"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=svc,OU=ServiceUsers,O=X", "svc"),
        (r"RULE:^CN=(.*?), *OU=(.*?),.*$/$1@$2/L", "CN=Al,OU=Ops,C=X", "al@ops"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U", "O=x,cn=a.b", "A.B"),
        ("RULE:^X$/x/,RULE:^CN=(?<n>.*)$/$1/,DEFAULT", "CN=a", "a"),
        ("RULE:^X$/x/,DEFAULT", "CN=a", "CN=a"),
        (r"RULE:^CN=(.*)$/$1\/x/", "CN=a", "a/x"),
    ],
)
def test_rules(rules: str, name: str, expected: str) -> None:
    assert MappingRules(rules).apply(name) == expected


def test_no_rule_fits() -> None:
    with pytest.raises(ValueError, match="no rule"):
        MappingRules("RULE:^X$/x/").apply("CN=a")


@pytest.mark.parametrize("rules", ["nonsense", "RULE:^a$", "RULE:^(a$/b/", "DEFAULT nonsense"])
def test_no_rules(rules: str) -> None:
    with pytest.raises(ValueError, match=r"rule|pattern"):
        MappingRules(rules)
