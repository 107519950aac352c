"""The name and the version of the program. No other file repeats them."""

NAME = "Bridge Server"
VERSION = "1.0.0"
REPOSITORY = "https://github.com/bridge-server/bridge-server"
USER_AGENT = f"{NAME.replace(' ', '-')}/{VERSION}"
