"""The console: pages for the operator in a browser, one file per page, on the services of the admin API."""
