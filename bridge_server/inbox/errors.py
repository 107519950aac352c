"""Errors of the inbox."""

from bridge_server.kernel.errors import ConflictError, LimitError, NotAuthenticatedError, NotFoundError

_RETRY_STREAM_SECONDS = 5


class SignInRefusedError(NotAuthenticatedError):
    """The message is well formed, but its sign-in is refused; the detail says why."""

    code = "sign-in-refused"
    title = "The sign-in is refused"


class WrongSignerError(SignInRefusedError):
    """The signature is of another account or of another text."""

    def __init__(self, signer: str) -> None:
        super().__init__(
            f"The signature of this message was made by {signer}, which is not the account that it names. "
            "Sign exactly the text that is sent (personal_sign, EIP-191)."
        )


class NonceRefusedError(SignInRefusedError):
    """The nonce is unknown, has been used, or has expired."""

    def __init__(self) -> None:
        super().__init__(
            "The nonce of the message is unknown, was used before, or has expired. "
            "Get another with POST /inbox/nonce: it is good for one sign-in."
        )


class DeviceNotFoundError(NotFoundError):
    """The account has no device of this id."""

    code = "device-not-found"
    title = "Device not found"

    def __init__(self) -> None:
        super().__init__("The account has no device of this id. GET /inbox/devices lists its devices.")


class TooManyDevicesError(ConflictError):
    """The account has reached the limit of devices."""

    code = "too-many-devices"
    title = "Too many devices"

    def __init__(self, limit: int) -> None:
        super().__init__(f"The account has {limit} devices, which is the limit. Delete one first.")


class TooManyStreamsError(LimitError):
    """The account has reached the limit of open streams."""

    code = "too-many-streams"
    title = "Too many open streams"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The account has {limit} open streams, which is the limit. Close one first.",
            _RETRY_STREAM_SECONDS,
        )
