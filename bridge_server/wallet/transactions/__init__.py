"""Transactions: requested, signed, broadcast, confirmed.

request    what a client asks for: a transaction object, or bytes signed elsewhere
fill       find out what a request leaves open: the chain, the gas, the price
approve    have a person agree, where the settings want that
sign       reserve a nonce, sign, and store the signed bytes, in one database transaction
broadcast  give the signed bytes to the node
confirm    compare what the node knows with what is stored: mined, dropped, replaced, set back
queue      an account's transactions which wait for the node, in the order of their nonces: queued or signed

"Send" is only in the names of the JSON-RPC methods, which do all of it, and in the state `sent`: the node has
the transaction. The states, and the events that lead from one to another, are the table in `states`.
"""
