"""`python -m bridge_server` is the command `bridge-server`."""

from bridge_server.cli.main import main

if __name__ == "__main__":
    main()
