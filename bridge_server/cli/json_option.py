"""The option `--json`. Its module is separate so that `version` need not import the settings."""

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
