"""The page of the wallet: requests that wait for a decision, accounts, transactions, signatures."""
