"""Suggestions for a word that is misspelled."""

from collections.abc import Iterable
from importlib import import_module


def near_words(word: str, known: Iterable[str], most: int) -> list[str]:
    """The known words that resemble this one, the nearest first.

    The library is imported when a word is wrong: it takes 130 KiB of memory.
    """
    near: list[str] = import_module("difflib").get_close_matches(word, list(known), n=most)
    return near
