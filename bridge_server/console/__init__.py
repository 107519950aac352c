"""The console: web pages for the operator, over the services of the admin API."""
