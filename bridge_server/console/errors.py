"""Errors of the console: each detail says what to do."""

from bridge_server.kernel.errors import ForbiddenError, GoneError, InvalidInputError, NotAuthenticatedError


class SignedOutError(NotAuthenticatedError):
    """The request belongs to no session of the console."""

    code = "console-signed-out"
    title = "You are not signed in"

    def __init__(self) -> None:
        super().__init__(
            "Run `bridge-server console` on the server's machine, and open the link that it prints. "
            "A sign-in lasts 12 hours."
        )


class LinkRefusedError(GoneError):
    """The sign-in link has been used, or is too old."""

    code = "console-link-refused"
    title = "This link does not sign in"

    def __init__(self) -> None:
        super().__init__(
            "A link signs in once, and within 5 minutes. Run `bridge-server console` again, and open the new "
            "link."
        )


class ForgedChangeError(ForbiddenError):
    """A change that no page of this console has sent for this session."""

    code = "console-forged-change"
    title = "Nothing was changed"

    def __init__(self) -> None:
        super().__init__(
            "The form did not come from a page of this console, or from one that is older than the sign-in. "
            "Open the page again, and repeat the change."
        )


class WrongHostError(ForbiddenError):
    """The request names a host that is not this server."""

    code = "console-wrong-host"
    title = "The console does not answer to this host"

    def __init__(self, host: str) -> None:
        super().__init__(
            f"It was called {host[:255]!r}. Open it as localhost, by the address of its machine, or by the "
            "host of public_url."
        )


class FramedError(ForbiddenError):
    """A page of the console is to be shown inside of another page."""

    code = "console-framed"
    title = "The console is not shown inside of other pages"

    def __init__(self) -> None:
        super().__init__("Open the console in a window of its own: its address is below.")


REFUSED_ATTEMPTS = (SignedOutError, LinkRefusedError, ForgedChangeError, WrongHostError, FramedError)
"""Failures that a stranger may have caused: these are logged."""


class UnknownChangeError(InvalidInputError):
    """The form names a change that the page does not have."""

    def __init__(self) -> None:
        super().__init__("The page has no such change. Open the page again, and repeat it.")
