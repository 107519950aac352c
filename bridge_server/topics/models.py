"""Topics, and the purpose of messages about them."""

from typing import NewType

from bridge_server.outbox.models import Purpose

Topic = NewType("Topic", str)
"""A session id of the bridge, or a topic of generation 1.x or 2.x."""

TOPIC_WEBHOOK = Purpose("topic-webhook")
"""The purpose of a notice to a webhook that was subscribed to a topic: its subject is the topic."""
