"""The one place that says which version this is, and what it calls itself."""

NAME = "Bridge Server"
VERSION = "1.0.0"
REPOSITORY = "https://github.com/bridge-server/bridge-server"
USER_AGENT = f"{NAME.replace(' ', '-')}/{VERSION}"
