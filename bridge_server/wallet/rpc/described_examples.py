"""The values of the examples in the OpenRPC document; keys and passphrases are published ones."""

ALICE = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
BOB = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
IMPORTED = "0x9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f"
IMPORTED_KEY = "0x" + "46" * 32
HELLO = "0x68656c6c6f"
HELLO_SIGNED = (
    "0xf16ea9a3478698f695fd1401bfe27e9e4a7e8e3da94aa72b021125e31fa899cc"
    "573c48ea3fe1d4ab61a9db10c19032026e3ed2dbccba5a178235ac27f94504311c"
)
SEND = {"from": ALICE, "to": BOB, "value": "0x1"}
COMPLETE = {**SEND, "nonce": "0x0", "gasPrice": "0x1"}
TYPED_DATA = {
    "types": {
        "EIP712Domain": [{"name": "name", "type": "string"}],
        "Greeting": [{"name": "contents", "type": "string"}],
    },
    "primaryType": "Greeting",
    "domain": {"name": "Example"},
    "message": {"contents": "Hello"},
}
TYPED_DATA_SIGNED = (
    "0xe5b2d271810cb6854cb5720e7348c3586ed51c573f1b25966c85d4c1f9a73312"
    "742ac128a69bb8c04224c3161a3cd6eec0e8b7388508b8ad8641a3231a2e08511b"
)
SIGNED_TRANSACTION = (
    "0xf862800183015f909470997970c51812dc3a010c7d01b50e0d17dc79c8018082f4f6"
    "a03369fcbb2e5f7692b7852952f3cce56e66bbc4468a96991047a42d827fb7e0d4"
    "a0058a966c5a07386ef6b2e7429645431880cbc4cbfe6d7308827feb25d71214c8"
)
ZERO_HASH = "0x" + "00" * 32
PERMISSION = {
    "invoker": "127.0.0.1",
    "parentCapability": "eth_accounts",
    "caveats": [{"type": "restrictReturnedAccounts", "value": [ALICE]}],
}
QUEUED = {
    "id": "019a0000-0000-7000-8000-000000000000",
    "state": "queued",
    "from": ALICE,
    "hash": None,
    "nonce": None,
    "chainId": "0x7a69",
    "transaction": SEND,
    "error": "The node cannot be reached.",
    "attempts": 1,
}
