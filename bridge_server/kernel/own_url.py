"""The URL at which other processes reach this one, which is known once it listens."""

import asyncio


class OwnUrl:
    """The URL that the settings name, or else the URL at which the process listens."""

    def __init__(self, chosen: str | None) -> None:
        self._url = chosen
        self._is_chosen = chosen is not None
        self._known = asyncio.Event()

    def announce(self, url: str) -> None:
        """Take the URL at which the process listens; it no longer changes."""
        if not self._is_chosen:
            self._url = url
        self._known.set()

    async def known(self) -> str:
        """The URL, once the process listens."""
        await self._known.wait()
        assert self._url is not None
        return self._url
