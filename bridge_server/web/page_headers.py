"""Headers of HTML pages: a page runs scripts of this server alone, and stands in no frame."""

from multidict import CIMultiDictProxy

from bridge_server.web.answers import ready_made

_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self' data:",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
}


def page_headers(**policy: str) -> CIMultiDictProxy[str]:
    """The headers of a page that no cache keeps; directives of its Content-Security-Policy by name."""
    directives = _POLICY | {name.replace("_", "-"): value for name, value in policy.items()}
    return ready_made(
        {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in directives.items()),
            "X-Frame-Options": "DENY",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
            "Referrer-Policy": "same-origin",  # without a referrer, forms would have the origin null
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
    )
