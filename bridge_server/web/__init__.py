"""The glue between aiohttp and the rooms: route rows, the gateway around them, bodies, errors, limits."""
