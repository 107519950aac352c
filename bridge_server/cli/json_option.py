"""The option of every command that prints data; apart from settings, which are slow to load."""

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
