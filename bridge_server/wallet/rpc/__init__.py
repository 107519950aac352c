"""The wallet's JSON-RPC: who may call, the methods, their parameters, their errors."""
