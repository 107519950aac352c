"""The aiohttp application: each route's handler behind its layers of middleware."""
