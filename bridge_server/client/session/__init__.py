"""A session of any generation: its pairing, its cipher, its messages, its connection."""
