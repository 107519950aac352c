"""The command `bridge-server`: one file per noun."""
