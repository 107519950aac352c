"""The pages at `/docs/` as rows."""

from bridge_server.documentation.handlers import DocumentationHandlers
from bridge_server.kernel.token_bucket import Limit
from bridge_server.web.problem_links import PAGES_PATH
from bridge_server.web.routes import Handler, Route


def documentation_routes(handlers: DocumentationHandlers, every_request: Limit) -> tuple[Route, ...]:
    """Every page, for everyone: they say nothing of what the server stores."""

    def row(path: str, name: str, handler: Handler) -> Route:
        return Route(
            method="GET", path=path, name=name, handler=handler, limits=(every_request,), who="reader"
        )

    return (
        row(PAGES_PATH, "docs-start", handlers.page),
        row("/docs/static/{name}", "docs-static", handlers.static),
        row("/docs/try/{name}", "docs-swagger-ui", handlers.swagger_ui),
        row(r"/docs/{page:[\s\S]*}", "docs-page", handlers.page),
    )
