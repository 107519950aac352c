"""Ethereum's own formats: hashes, addresses, signatures, messages. Pure: no chain is asked, no key kept."""
