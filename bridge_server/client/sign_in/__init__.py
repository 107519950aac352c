"""Sign-in of generation 2.x: EIP-4361 messages, ReCaps, and CACAOs, the signed answers."""
