"""Texts of the document that belong to no room: introduction, tags, security schemes, header fields."""

from typing import Any

from bridge_server.web.description import Parameter

INTRODUCTION = """\
One server with four interfaces on one port: a relay bridge for dapps and wallets, a notification service for
apps and their accounts, a push server, and a wallet that answers JSON-RPC.

**Errors** are problems (RFC 9457, `application/problem+json`); `type` ends in a code that never changes. Any
request may also get `bad-request` (400), `target-too-long` (414) and `header-field-too-long` (431) before a
route is looked for, `not-found` (404) for an unknown path, `method-not-allowed` (405), and `server-error`
(500), which is a bug. The wallet answers JSON-RPC errors with status 200 instead.

**Rate limits** are token buckets. Answers of limited routes have the header fields `RateLimit` and
`RateLimit-Policy`, a 429 has `Retry-After`.

**Later versions** may add members to answers, routes and codes of problems. Unknown members of a request are
ignored unless its description says otherwise.
"""

TAGS = {
    "Bridge": "Sessions and calls between a dapp and a wallet. An id is a capability: there is no other "
    "authentication. Payloads are encrypted by the clients and opaque to the server. Web pages of any origin "
    "may call these routes.",
    "Bridge, generation 0.7": "The same sessions and calls for clients of generation 0.7, under their own "
    "path and in their own envelope.",
    "Sockets": "WebSockets for clients of generations 1.x and 2.x.",
    "Notifications": "For an app's backend, with a secret of its project. No web page may call these routes.",
    "Inbox": "For an account, which signs in with Ethereum (EIP-4361). Web pages of configured origins may "
    "call these routes.",
    "Push": "Registration of a wallet's devices, and pushes to them. Web pages of any origin may call these "
    "routes.",
    "Wallet": "Ethereum JSON-RPC of the accounts whose keys the server has.",
    "Projects": "For the operator, with the admin token: projects, their secrets, types, limits and "
    "subscribers.",
    "Accounts": "For the operator: what is known of an account.",
    "Wallet administration": "For the operator: accounts, approvals, transactions and signatures.",
    "Outbox": "For the operator: messages that are owed to webhooks and devices.",
    "Observation": "For the operator: requests, clients, sessions, figures and settings.",
    "Operation": "Health, metrics and this description.",
    "Test mode": "Control routes of a server that runs for tests (`serve --test`). They exist on no other.",
}

SECURITY: dict[str, Any] = {
    "projectSecret": {
        "type": "http",
        "scheme": "bearer",
        "description": "A secret of the project in the path (`bsk_...`). It belongs in the app's backend.",
    },
    "inboxToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "The token of `POST /inbox/login`, for which an account signs in with Ethereum.",
    },
    "adminToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "The setting `admin_token`. The Host field must name this machine, the address that "
        "the request came to, `public_url` or one of `rpc_hosts`.",
    },
    "rpcToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "The setting `rpc_token`. Without that setting only programs of the same machine may "
        "call, and need no token.",
    },
    "metricsToken": {"type": "http", "scheme": "bearer", "description": "The setting `metrics_token`."},
    "testToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "`test_token` of the ready file.",
    },
}

HEADERS: dict[str, Any] = {
    "X-Request-ID": {
        "description": "The id of the request: that of the request's own `X-Request-ID`, or a new one.",
        "schema": {"type": "string"},
    },
    "RateLimit": {
        "description": "What is left of each limit, and in how many seconds it is whole again: "
        '`"requests";r=99;t=1`. Addresses that are exempt from limits get none.',
        "schema": {"type": "string"},
    },
    "RateLimit-Policy": {
        "description": 'Each limit: how much at once, and in how many seconds: `"requests";q=100;w=10`.',
        "schema": {"type": "string"},
    },
    "Link": {
        "description": 'The page about the code of the problem: `</docs/errors/CODE>; rel="help"`.',
        "required": True,
        "schema": {"type": "string"},
    },
    "Retry-After": {
        "description": "After how many seconds another attempt may succeed.",
        "required": True,
        "schema": {"type": "integer", "minimum": 0},
    },
    "Preference-Applied": {
        "description": "`wait=N`, if the request had `Prefer: wait`: the seconds that it might have waited.",
        "schema": {"type": "string"},
    },
    "WWW-Authenticate": {
        "description": "`Bearer`.",
        "required": True,
        "schema": {"type": "string", "const": "Bearer"},
    },
    "Allow": {
        "description": "The methods of the path.",
        "required": True,
        "schema": {"type": "string"},
    },
}

WAIT_PARAMETERS = (
    Parameter(
        "Prefer",
        "`wait=N` (RFC 7240) has the server wait up to N seconds, 25 at most, for something to answer.",
        {"type": "string", "examples": ["wait=25"]},
        "header",
    ),
    Parameter(
        "wait", "As `Prefer: wait=N`, for clients that cannot send it.", {"type": "integer", "minimum": 0}
    ),
)
