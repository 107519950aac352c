"""The glue between aiohttp and the rooms: route rows, middleware around them, bodies, errors, limits."""
