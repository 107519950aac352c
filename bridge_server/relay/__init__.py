"""B, the relay bridge: a dapp and a wallet exchange sessions, calls and call statuses, all opaque."""
