"""The console: pages for the operator in a browser, one folder per page, on the services of the admin API."""
