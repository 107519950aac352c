"""The operations of routes that belong to no room: health, metrics, and the description itself."""

from typing import Any

from bridge_server.web.description import TEXT, DescribedAnswer, Operation

_TAG = "Operation"

SERVICE_OPERATIONS = {
    "livez": Operation(
        tag=_TAG,
        summary="Is the process alive",
        text="Answers as long as the process runs, whatever its database does.",
        answers=(DescribedAnswer(200, "It runs.", str, TEXT),),
        needs_database=False,
    ),
    "readyz": Operation(
        tag=_TAG,
        summary="Can the server do its work",
        text="Reads and writes the database. Each line after the first names a trouble that lasts until an "
        "operator mends it; the status stays 200.",
        answers=(DescribedAnswer(200, "`ready`, and a line `but ...` for each trouble.", str, TEXT),),
    ),
    "metrics": Operation(
        tag=_TAG,
        summary="Figures for Prometheus",
        text="All figures in the Prometheus text format. The route exists if `metrics_token` is set.",
        answers=(DescribedAnswer(200, "The figures.", str, TEXT),),
        needs_database=False,
    ),
    "openapi": Operation(
        tag=_TAG,
        summary="This description",
        text="The routes of this server in OpenAPI 3.1, as its settings have them. `bridge-server openapi` "
        "prints those of a server that has everything turned on.",
        answers=(
            DescribedAnswer(200, "The document.", dict[str, Any]),
            DescribedAnswer(304, "It has not changed since the ETag of If-None-Match."),
        ),
        needs_database=False,
    ),
}
