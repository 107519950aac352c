"""Topics, under which dapps and wallets meet, and the webhooks that are called when something happens."""
