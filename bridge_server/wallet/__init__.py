"""D, the wallet: JSON-RPC methods that sign messages and typed data, and sign and send transactions."""
