"""Both kinds of token that the providers sign, checked by another library."""

import pytest
from Crypto.PublicKey import ECC, RSA
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from bridge_server.push import base64url
from bridge_server.push.providers.jwt import es256, rs256
from bridge_server.testing.jwt_check import verified

RSA_KEY = RSA.generate(2_048)
EC_KEY = ECC.generate(curve="P-256")


def rsa_public() -> RSAPublicKey:
    key = load_pem_public_key(RSA_KEY.public_key().export_key())
    assert isinstance(key, RSAPublicKey)
    return key


def ec_public() -> EllipticCurvePublicKey:
    key = load_pem_public_key(str(EC_KEY.public_key().export_key(format="PEM")).encode())
    assert isinstance(key, EllipticCurvePublicKey)
    return key


def test_rs256_is_verified() -> None:
    token = rs256({"kid": "k"}, {"iss": "bücher", "iat": 5}, RSA_KEY)

    assert verified(token, rsa_public()) == ({"alg": "RS256", "kid": "k"}, {"iss": "bücher", "iat": 5})


def test_es256_is_verified() -> None:
    for number in range(20):  # r and s begin with a zero byte now and then
        token = es256({"kid": "k"}, {"iss": "i", "iat": number}, EC_KEY)

        assert verified(token, ec_public()) == ({"alg": "ES256", "kid": "k"}, {"iss": "i", "iat": number})


def test_es256_signs_the_same_claims_the_same_way() -> None:
    tokens = {es256({"kid": "k"}, {"iss": "i", "iat": number % 2}, EC_KEY) for number in range(6)}

    assert len(tokens) == 2


@pytest.mark.parametrize("part", [0, 1, 2])
def test_what_was_altered_is_not_verified(part: int) -> None:
    for token, key in ((rs256({}, {}, RSA_KEY), rsa_public()), (es256({}, {}, EC_KEY), ec_public())):
        parts = token.split(".")
        parts[part] = base64url.encode(base64url.decode(parts[part])[:-1] + b"?")

        with pytest.raises(ValueError, match="does not fit"):
            verified(".".join(parts), key)


def test_what_is_no_token_is_not_verified() -> None:
    bare = es256({}, {}, EC_KEY)
    header, claims, signature = bare.split(".")

    for text in ("", "a.b", f"{header}.{claims}.{signature}=", f"{header}.{claims}.{signature[:-4]}"):
        with pytest.raises(ValueError, match=r"three parts|padding|32 bytes each"):
            verified(text, ec_public())


def test_a_header_of_another_algorithm_is_not_verified() -> None:
    with pytest.raises(ValueError, match="alg must be ES256"):
        verified(es256({"alg": "none"}, {}, EC_KEY), ec_public())
