"""The layers of middleware around every handler, composed once per route from its row.

A route pays for the layers that its row asks for, and for no others: aiohttp's own chain is built again for
every request, which costs more than the layers do.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from aiohttp import web
from aiohttp.typedefs import Middleware

from bridge_server.web.connections import Connections
from bridge_server.web.middleware.bearer import bearer
from bridge_server.web.middleware.body import body
from bridge_server.web.middleware.cors import cors, share
from bridge_server.web.middleware.errors import errors
from bridge_server.web.middleware.faults import Strike, faults
from bridge_server.web.middleware.rate_limits import rate_limits
from bridge_server.web.middleware.request_log import request_log
from bridge_server.web.middleware.traffic import traffic
from bridge_server.web.observing import Observer
from bridge_server.web.problems import code_of_refusal, problem_of_refusal
from bridge_server.web.refusal_report import Refusals
from bridge_server.web.request_figures import RequestFigures
from bridge_server.web.request_id import HEADER, RequestIds
from bridge_server.web.request_lines import Reporting, RequestLines, note_refusal
from bridge_server.web.routes import Handler, Route
from bridge_server.web.token_buckets import TokenBuckets
from bridge_server.web.traffic import TrafficLog

_REFUSED = "refused"


class Gateway:
    """Every request enters and leaves here."""

    def __init__(
        self,
        request_ids: RequestIds,
        connections: Connections,
        quotas: TokenBuckets,
        save_quotas: Callable[[], Awaitable[None]],
        figures: RequestFigures,
        refusals: Refusals,
        reporting: Reporting,
        record: TrafficLog | None = None,
        strike: Strike | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._request_ids = request_ids
        self._connections = connections
        self._quotas = quotas
        self._save_quotas = save_quotas
        self._figures = figures
        self._record = record
        self._strike = strike
        self._observer = observer
        self._lines = RequestLines(reporting, connections.addresses, refusals)

    def around(self, row: Route) -> Handler:
        """The row's handler behind its layers. It always answers; only a client's departure is raised."""
        return _compose(self._layers(row), row.handler)

    def _layers(self, row: Route) -> Sequence[Middleware | None]:
        """The order of all layers, outermost first; None in the place of a layer that the row does not need.

        CORS is outside of errors, so that a web page may read why it was refused.
        """
        return (
            request_log(
                row, self._request_ids, self._connections, self._figures, self._lines, self._observer
            ),
            traffic(row, self._record),
            cors(row.any_origin, row.origins),
            errors(row.name),
            faults(row, self._strike),
            bearer(row),
            rate_limits(row, self._connections.addresses, self._quotas, self._save_quotas),
            body(row.body_limit_bytes),
        )

    def refuse(self, has_help: bool, request: web.BaseRequest, status: int, detail: str) -> web.Response:
        """The answer to a request that could not be read, and so has no route.

        It is all that the three outermost layers make of a problem. No header was read, and so no origin.
        """
        request_id = self._request_ids.name(request)
        response = problem_of_refusal(status, detail, request_id, has_help)
        response.headers[HEADER] = request_id
        share(response.headers)
        self._figures.of_route(_REFUSED).count(status, 0.0)
        note_refusal(request, _REFUSED, status, code_of_refusal(status), request_id)
        return response


def _compose(layers: Sequence[Middleware | None], handler: Handler) -> Handler:
    """The handler behind the layers, the first of which is the outermost."""
    outermost, *inner = [layer for layer in layers if layer is not None]
    for layer in reversed(inner):
        handler = _behind(layer, handler)
    return partial(outermost, handler=handler)  # a coroutine function, as aiohttp wants its handlers


def _behind(layer: Middleware, handler: Handler) -> Handler:
    def answer(request: web.Request) -> Awaitable[web.StreamResponse]:  # a partial costs twice as much
        return layer(request, handler)

    return answer
