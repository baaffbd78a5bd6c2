"""CVE-2021-38153: secrets were compared byte by byte, and the time it took told how many were right. Whatever a login compares with what is kept goes through
`hmac.compare_digest`."""

import ast
from pathlib import Path

import barnabas

SOURCE = Path(barnabas.__file__).parent
LOGINS = [
    *sorted((SOURCE / "core/sasl").glob("*.py")),
    SOURCE / "broker/authentication.py",
    SOURCE / "broker/users.py",
]
SECRET = (
    "password",
    "secret",
    "proof",
    "stored_key",
    "server_key",
    "signature",
    "digest",
    "salted",
)


def names_in(node):
    return {one.id.lower() for one in ast.walk(node) if isinstance(one, ast.Name)} | {
        one.attr.lower() for one in ast.walk(node) if isinstance(one, ast.Attribute)
    }


def test_no_secret_is_compared_with_equals():
    assert len(LOGINS) > 4
    for path in LOGINS:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Compare):
                continue
            if not any(isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in node.ops):
                continue
            touched = [name for name in names_in(node) if any(word in name for word in SECRET)]
            assert not touched, f"{path.name} line {node.lineno}: {ast.unparse(node)}"


def test_they_are_compared_in_constant_time():
    text = "".join(path.read_text() for path in LOGINS)
    assert text.count("hmac.compare_digest(") >= 3
