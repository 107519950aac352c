"""The PostgreSQL server that tests use: databases are made once, and emptied for each test."""

from tests.support.postgres import PostgresServer, connected, needs_postgres

pytestmark = needs_postgres


async def make_schema(connection: object) -> None:
    await connection.execute("CREATE TABLE things (id BIGINT GENERATED ALWAYS AS IDENTITY, name TEXT)")  # type: ignore[attr-defined]


async def test_a_database_is_emptied_for_each_test(postgres: PostgresServer) -> None:
    first = await postgres.database("things", make_schema)
    async with connected(first) as connection:
        await connection.execute("INSERT INTO things (name) VALUES ('a'), ('b')")

    second = await postgres.database("things", make_schema)

    async with connected(second) as connection:
        assert await connection.fetchval("SELECT count(*) FROM things") == 0
        assert await connection.fetchval("INSERT INTO things (name) VALUES ('c') RETURNING id") == 1
    assert first == second


async def test_a_bare_database_has_no_table(postgres: PostgresServer) -> None:
    async with connected(await postgres.bare_database()) as connection:
        assert await connection.fetch("SELECT 1 FROM pg_tables WHERE schemaname = 'public'") == []


async def test_the_order_of_texts_is_a_languages_unless_a_column_says_more(postgres: PostgresServer) -> None:
    async with connected(postgres.url) as connection:
        rows = await connection.fetch("SELECT t FROM (VALUES ('B'), ('a')) AS v (t) ORDER BY t")

    assert [row[0] for row in rows] == ["a", "B"]
