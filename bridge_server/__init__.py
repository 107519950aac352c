"""Bridge Server: the server that wallets and dapps talk through."""
