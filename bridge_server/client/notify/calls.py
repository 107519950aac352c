"""A notification to many accounts, call by call."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from bridge_server.client.http.requests import FailedAttemptError, HttpRequests
from bridge_server.client.notify.content import json_body
from bridge_server.client.notify.patience import Patience
from bridge_server.client.notify.results import NotifyProgress, read_answer, read_result


class NotifyCalls:
    """Makes calls that can be repeated: they have a notification id, or are dry runs.

    `fields` are the members that every call has. `answer` is the answer to the last call.
    """

    def __init__(
        self, requests: HttpRequests, path: str, fields: Mapping[str, Any], progress: NotifyProgress
    ) -> None:
        self._requests = requests
        self._path = path
        self._fields = fields
        self._patience = Patience(requests.url, requests.pace)
        self.progress = progress
        self.answer: dict[str, Any] = {}

    async def call(self, more: Mapping[str, Any], after: str | None) -> AsyncGenerator[NotifyProgress]:
        """Make a call until it is answered; yields the progress before each wait, and at the end.

        `after` is the last account of the call; None takes the member `next` of the answer. Raises
        RequestRefusedError, BridgeUnreachableError, BadAnswerError.
        """
        body = json_body({**self._fields, **more})
        while True:
            try:
                self.answer = read_answer(await self._requests.attempt("POST", self._path, body))
                break
            except FailedAttemptError as failure:
                pause, because = self._patience.pause_after(failure), str(failure)
            yield self.progress.waiting(pause, because)
            await asyncio.sleep(pause)
        self._patience.succeeded()
        following = self.answer.get("next") or self.progress.after if after is None else after
        self.progress = self.progress.with_result(read_result(self.answer), following)
        yield self.progress
