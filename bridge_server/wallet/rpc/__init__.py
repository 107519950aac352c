"""The wallet's JSON-RPC: access, methods, parameters, errors."""
