"""Topics, under which dapps and wallets meet, and the webhooks that are subscribed to them."""
