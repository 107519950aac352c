"""PostgreSQL's form of some statements of transactions."""

from collections.abc import Mapping

from bridge_server.storage.postgres.rewriting import with_parts
from bridge_server.storage.postgres.sweeps import swept
from bridge_server.wallet.transactions import listing_sql, sql

_PARAMS = "convert_from(params, 'UTF8')::json"
_SHOWN = {
    "json_extract(CAST(params AS TEXT), '$.to')": (
        f"CASE WHEN json_typeof({_PARAMS}) = 'object' THEN {_PARAMS} ->> 'to' END"
    ),
    "json_extract(CAST(params AS TEXT), '$.value')": f"{_PARAMS} ->> 'value'",
    "json_type(CAST(params AS TEXT)) = 'object'": f"json_typeof({_PARAMS}) = 'object'",
    "json_type(CAST(params AS TEXT)) = 'text'": f"json_typeof({_PARAMS}) = 'string'",
}

OVERRIDES: Mapping[str, str] = {
    listing_sql.PAGE: with_parts(listing_sql.PAGE, _SHOWN),
    sql.SWEEP: swept(sql.SWEEP),
}
"""PostgreSQL's forms by the statements of `listing_sql` and `sql`."""
