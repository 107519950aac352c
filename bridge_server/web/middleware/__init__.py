"""The layers around a handler, one file and one function each; `web/serving/gateway.py` has their order."""
