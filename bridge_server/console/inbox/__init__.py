"""The page that shows an inbox as its account sees it."""
