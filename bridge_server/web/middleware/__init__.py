"""The layers around a handler, one file and one function each; `web/gateway.py` has their order."""
