"""Tokens that somebody else has signed (JWT, RFC 7519): which are good.

Job: check signature, issuer, audience and times, all of them, each time. Must not know: where keys come from; it is
asked for them by their id. Only a broker with OAUTHBEARER loads this: it needs the package pyjwt.
Invariants: nothing of a token is believed before its signature is checked; the algorithm must be one that its key is for, so a
public key is never taken for a shared secret, and `none` is no algorithm (CVE-2026-33557, CVE-2026-110985).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import jwt

from barnabas.core.sasl.mechanism import Identity
from barnabas.core.sasl.oauthbearer import TokenRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: What a key of each type may have signed with. Secrets that both sides share (`oct`) are not taken at all.
ALGORITHMS: Final[Mapping[str, Sequence[str]]] = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
#: Keys of one source; a source that lists more is not believed.
KEYS_MAX: Final = 256
TOKEN_BYTES_MAX: Final = 64 * 1024


@dataclass(slots=True, frozen=True)
class Key:
    """A public key, and what it may have signed with."""

    key: Any
    algorithms: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class TokenRules:
    """What a good token says."""

    issuer: str
    audiences: tuple[str, ...]
    clock_skew_ms: int = 30_000
    sub_claim: str = "sub"


def read_keys(text: bytes) -> dict[str, Key]:
    """Read a key set (JWKS, RFC 7517) by key id; ValueError if it has no key that can be used."""
    found: dict[str, Key] = {}
    try:
        listed = json.loads(text)["keys"]
        for one in listed[:KEYS_MAX]:
            algorithms = ALGORITHMS.get(one.get("kty"), ())
            if one.get("alg") is not None:
                algorithms = tuple(name for name in algorithms if name == one["alg"])
            if not algorithms or not one.get("kid") or one.get("use", "sig") != "sig":
                continue
            key = jwt.PyJWK(one, algorithm=algorithms[0]).key
            found[str(one["kid"])] = Key(key, tuple(algorithms))
    except (KeyError, TypeError, AttributeError, ValueError, jwt.PyJWTError) as problem:
        raise ValueError(f"this is no key set: {type(problem).__name__}") from None
    if not found:
        raise ValueError("the key set has no public key with an id (kid)")
    return found


class TokenCheck:
    """Tells good tokens from others."""

    def __init__(self, rules: TokenRules, find_key: Callable[[str], Key | None]) -> None:
        """Take the rules, and who knows keys."""
        assert rules.issuer, "a token without an issuer is nobody's word"
        assert rules.audiences, "a token for anybody is no token for us"
        self._rules = rules
        self._find_key = find_key

    def check(self, token: str, now_ms: int) -> Identity:
        """Tell whose token it is; TokenRefused if it is not good."""
        claims = self._read_signed(token)
        rules = self._rules
        if claims.get("iss") != rules.issuer:
            raise TokenRefused("it is of another issuer")
        audience = claims.get("aud")
        named = audience if isinstance(audience, list) else [audience]
        if not any(one in rules.audiences for one in named):
            raise TokenRefused("it is for another audience")
        expires_ms = self._check_times(claims, now_ms)
        name = claims.get(rules.sub_claim)
        if not isinstance(name, str) or not name:
            raise TokenRefused(f"it has no {rules.sub_claim}")
        return Identity(name, expires_ms)

    def _read_signed(self, token: str) -> dict[str, Any]:
        if len(token) > TOKEN_BYTES_MAX:
            raise TokenRefused("it is too long")
        try:
            head = jwt.get_unverified_header(token)
            key = self._find_key(str(head.get("kid", "")))
            if key is None:
                raise TokenRefused("no key is known by its key id (kid)")
            if head.get("alg") not in key.algorithms:
                raise TokenRefused("its algorithm is not one of its key")
            # Times, issuer and audience are checked here, against the node's clock and all of them.
            options = dict.fromkeys(_NOT_BY_THE_LIBRARY, False)
            claims = jwt.decode(
                token,
                key.key,
                algorithms=list(key.algorithms),
                options=options,  # type: ignore[arg-type]
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            # Of lists in lists, without end, older releases of pyjwt let the last one out.
            raise TokenRefused("its signature does not fit") from None
        return claims

    def _check_times(self, claims: dict[str, Any], now_ms: int) -> int:
        expires, not_before, issued = (_time_ms(claims, name) for name in ("exp", "nbf", "iat"))
        skew_ms = self._rules.clock_skew_ms
        if expires is None:
            raise TokenRefused("it does not say when it expires")
        if expires + skew_ms <= now_ms:
            raise TokenRefused("it has expired")
        if any(time is not None and time - skew_ms > now_ms for time in (not_before, issued)):
            raise TokenRefused("it is not good yet")
        return expires


_NOT_BY_THE_LIBRARY: Final = ("verify_exp", "verify_nbf", "verify_iat", "verify_aud", "verify_iss", "verify_sub", "verify_jti")  # fmt: skip


def _time_ms(claims: dict[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**53:
        raise TokenRefused(f"its {name} is no time")
    return int(value * 1000)
