"""The PostgreSQL driver: several processes share one database. It is imported only where one is named."""
