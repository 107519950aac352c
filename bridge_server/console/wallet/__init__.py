"""The page of the wallet: what waits for a decision, accounts, transactions, signatures."""
