"""The Ethereum node behind the wallet: connections that are checked, calls out, answers in."""
