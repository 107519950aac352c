"""The last requests, as they are listed, followed and streamed to the operator."""
