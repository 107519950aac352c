"""Private keys, from the smallest to the greatest, and that of the first account for development."""

from random import Random

ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141
EDGES = (1, 2, 0xC0FFEE, ORDER // 2, ORDER // 2 + 1, ORDER - 2, ORDER - 1)

DEVELOPMENT_KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"


def any_key(chance: Random) -> str:
    """An edge of the range in one of four cases, else any."""
    number = chance.choice(EDGES) if chance.random() < 0.25 else chance.randrange(1, ORDER)
    return f"0x{number:064x}"
