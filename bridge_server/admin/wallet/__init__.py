"""The accounts, the transactions and the signatures of the wallet."""
