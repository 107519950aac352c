"""Both kinds of token that the providers sign, checked by the services for tests and by another library."""

from collections.abc import Callable
from typing import Any

import pytest
from Crypto.PublicKey import ECC, RSA
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from bridge_server.kernel import base64url
from bridge_server.push.keys import es256, rs256
from tests.support import credentials
from tests.support import jwt_check as another_check
from tests.support.fcm_service import rsa_key
from tests.support.rows import each_row

RSA_KEY = rsa_key()
EC_KEY = ECC.generate(curve="P-256")


Key = RSA.RsaKey | ECC.EccKey
Verified = Callable[[str, Key], tuple[dict[str, Any], dict[str, Any]]]


def by_service(token: str, key: Key) -> tuple[dict[str, Any], dict[str, Any]]:
    return credentials.verified(token, key.public_key())


def by_another_library(token: str, key: Key) -> tuple[dict[str, Any], dict[str, Any]]:
    exported = key.public_key().export_key(format="PEM")
    pem = exported if isinstance(exported, bytes) else exported.encode()
    public = load_pem_public_key(pem)
    assert isinstance(public, another_check.PublicKey)
    return another_check.verified(token, public)


by_both = pytest.mark.parametrize("verified", [by_service, by_another_library])


@by_both
def test_rs256_is_verified(verified: Verified) -> None:
    token = rs256({"kid": "k"}, {"iss": "bücher", "iat": 5}, RSA_KEY)

    assert verified(token, RSA_KEY) == ({"alg": "RS256", "kid": "k"}, {"iss": "bücher", "iat": 5})


@by_both
def test_es256_is_verified(verified: Verified) -> None:
    for number in range(20):  # r and s begin with a zero byte now and then
        token = es256({"kid": "k"}, {"iss": "i", "iat": number}, EC_KEY)

        assert verified(token, EC_KEY) == ({"alg": "ES256", "kid": "k"}, {"iss": "i", "iat": number})


def test_es256_is_deterministic() -> None:
    tokens = {es256({"kid": "k"}, {"iss": "i", "iat": number % 2}, EC_KEY) for number in range(6)}

    assert len(tokens) == 2


@by_both
@each_row("part", [0, 1, 2])
def test_altered_token_is_not_verified(verified: Verified, part: int) -> None:
    for token, key in ((rs256({}, {}, RSA_KEY), RSA_KEY), (es256({}, {}, EC_KEY), EC_KEY)):
        parts = token.split(".")
        parts[part] = base64url.encode(base64url.decode(parts[part])[:-1] + b"?")

        with pytest.raises(ValueError, match="does not fit"):
            verified(".".join(parts), key)


@by_both
def test_malformed_token_is_not_verified(verified: Verified) -> None:
    bare = es256({}, {}, EC_KEY)
    header, claims, signature = bare.split(".")

    for text in ("", "a.b", f"{header}.{claims}.{signature}=", f"{header}.{claims}.{signature[:-4]}"):
        with pytest.raises(ValueError, match=r"three parts|padding|32 bytes each|does not fit"):
            verified(text, EC_KEY)


@by_both
def test_a_header_of_another_algorithm_is_not_verified(verified: Verified) -> None:
    with pytest.raises(ValueError, match="alg must be ES256"):
        verified(es256({"alg": "none"}, {}, EC_KEY), EC_KEY)
