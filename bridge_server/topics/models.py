"""A topic as every room knows it."""

from typing import NewType

Topic = NewType("Topic", str)
"""A session id of the bridge, or a topic of generation 1.x."""
