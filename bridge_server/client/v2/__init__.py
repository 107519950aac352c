"""Generation 2.x: sign and relay as the WalletConnect 2.0 specifications describe them (docs/clients.md)."""
