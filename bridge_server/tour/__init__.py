"""The tour: a dapp, a wallet, an app's backend and an operator use a server, and each request is printed."""
