"""Warnings at the start of a server: settings that are probably mistakes, or that make it less safe."""

import structlog

from bridge_server.cli.process import raise_descriptor_limit
from bridge_server.settings.settings import Settings
from bridge_server.settings.sources import LoadedSettings

_ENOUGH_DESCRIPTORS = 5_500

log = structlog.get_logger()


def warn_of_open_doors(settings: Settings) -> None:
    """Warn of settings that are for tests and development only."""
    if settings.dev_accounts:
        log.warning(
            "development_accounts", advice="everybody knows their keys: never send them anything of value"
        )
    if settings.test:
        log.warning("test_mode", advice="tests can empty this server: never keep anything of value in it")


def warn_of_mistakes(loaded: LoadedSettings) -> None:
    """Warn of settings that are probably mistakes."""
    for variable in loaded.unknown_variables:
        log.warning("unknown_setting", variable=variable)
    _warn_of_open_wallet(loaded.settings)
    descriptors = raise_descriptor_limit()
    if descriptors < _ENOUGH_DESCRIPTORS:
        log.warning(
            "few_file_descriptors", limit=descriptors, wanted=_ENOUGH_DESCRIPTORS,
            advice="each waiting client needs one: raise the hard limit (ulimit -Hn, LimitNOFILE=)",
        )  # fmt: skip


def _warn_of_open_wallet(settings: Settings) -> None:
    """Warn that a proxy without X-Forwarded-For makes every client look like one on this machine."""
    way = settings.way_through_a_proxy
    if way is None or settings.rpc_token is not None or not settings.has_wallet:
        return
    log.warning(
        "wallet_without_token", because=way,
        advice="clients come through a proxy; if it adds no X-Forwarded-For, the wallet answers all of "
        "them: set rpc_token",
    )  # fmt: skip
