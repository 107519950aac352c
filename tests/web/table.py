"""Every route that the server has, as a client of it would list them."""

SESSION_ID = "5f9c55ec-102a-45ab-a679-b264d7cdc261"
CALL_ID = "0192f0c1-2d3e-7f00-8000-000000000000"
PROJECT_ID = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"

BRIDGE: dict[str, set[str]] = {
    "/hello": {"GET"},
    "/info": {"GET"},
    "/session/new": {"POST"},
    f"/session/{SESSION_ID}": {"GET", "PUT", "DELETE"},
    f"/session/{SESSION_ID}/call/new": {"POST"},
    f"/session/{SESSION_ID}/calls": {"GET"},
    f"/session/{SESSION_ID}/call/{CALL_ID}": {"GET"},
    f"/call-status/{CALL_ID}/new": {"POST"},
    f"/call-status/{CALL_ID}": {"GET"},
    "/subscribe": {"POST"},
}
SOCKETS: dict[str, set[str]] = {"/": {"GET"}, "/compat/v1": {"GET"}, "/compat/v2": {"GET"}}
V07 = {f"/compat/v0.7{path}": methods for path, methods in BRIDGE.items()}
PUSH: dict[str, set[str]] = {"/new": {"POST"}, "/push": {"POST"}}
ANY_ORIGIN = {**BRIDGE, **SOCKETS, **V07, **PUSH}
"""The paths that web pages of any origin may call."""
NOTIFY: dict[str, set[str]] = {
    f"/{PROJECT_ID}/notify": {"POST"},
    f"/{PROJECT_ID}/notify/audience": {"POST"},
    f"/v1/{PROJECT_ID}/subscribers": {"POST"},
    f"/{PROJECT_ID}/subscribers": {"GET"},
    f"/v1/{PROJECT_ID}/mark-all-as-read": {"POST"},
}
WALLET: dict[str, set[str]] = {"/rpc": {"POST"}}
AROUND: dict[str, set[str]] = {"/livez": {"GET"}, "/readyz": {"GET"}, "/metrics": {"GET"}}
NO_ORIGIN = {**NOTIFY, **WALLET, **AROUND}
"""The paths that no web page may call, unless a setting allows it."""
WITH_A_BODY = [
    *((method, prefix + path) for prefix in ("", "/compat/v0.7") for method, path in (
        ("PUT", f"/session/{SESSION_ID}"), ("POST", f"/session/{SESSION_ID}/call/new"),
        ("POST", f"/call-status/{CALL_ID}/new"), ("POST", "/subscribe"),
    )),
    ("POST", "/new"), ("POST", "/push"),
]  # fmt: skip
