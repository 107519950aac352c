"""The page of test mode: rules with their hits, the clock, and the reset."""

import re

from tests.support.console_client import ConsoleClient

PATH = "/console/faults"


async def test_a_rule_strikes_counts_its_hits_and_is_removed(console: ConsoleClient) -> None:
    page = await console.change(PATH, "add", where="request", route="info", status="503", times="2")
    assert "The rule is in force." in page
    statuses = [(await console.get("/info")).status for _ in range(3)]
    page = await console.page(PATH)
    number = re.search(r'name="rule" value="(\d+)"', page)
    assert number is not None

    assert statuses == [503, 503, 200]
    assert re.search(r'data-label="Hits"[^>]*>2<', page)
    assert "No rule is in force" in await console.change(PATH, "remove", rule=number[1])
    assert (await console.send(PATH, "remove", rule=number[1])).status == 400


async def test_adding_a_rule_keeps_the_hits_of_the_others(console: ConsoleClient) -> None:
    await console.send(PATH, "add", where="request", route="info", status="500")
    await console.get("/info")

    page = await console.change(PATH, "add", where="webhook", drop="on")

    assert re.findall(r'data-label="Hits"[^>]*>(\d+)<', page) == ["1", "0"]


async def test_a_rule_for_every_request_leaves_the_console_usable(console: ConsoleClient) -> None:
    page = await console.change(PATH, "add", where="request", status="503")

    assert "The rule is in force." in page
    assert (await console.get("/info")).status == 503


async def test_a_rule_that_means_nothing_is_refused_with_its_fields_kept(console: ConsoleClient) -> None:
    answer = await console.send(PATH, "add", where="request", route="no-such-route", status="teapot")

    page = answer.body.decode()
    assert answer.status == 400
    assert "<strong>status</strong>" in page
    assert 'value="no-such-route"' in page
    assert "No rule is in force" in page


async def test_no_more_rules_than_a_hundred(console: ConsoleClient) -> None:
    headers = {"Authorization": f"Bearer {console.server.test_token}"}
    rules = [{"where": "webhook", "drop": True}] * 100
    async with console.server.client.put(
        f"{console.server.url}/_test/faults", json=rules, headers=headers
    ) as response:
        assert response.status == 200

    answer = await console.send(PATH, "add", where="webhook", drop="on")

    assert answer.status == 400
    assert "at most 100 rules" in answer.body.decode()


async def test_time_passes_and_the_clock_is_set(console: ConsoleClient) -> None:
    assert "1 d 12 h have passed" in await console.change(PATH, "advance", number="1.5", unit="days")
    assert "clock +1 d 12 h" in await console.page(PATH)
    page = await console.change(PATH, "set-clock", now="2030-01-01T00:00:00Z", frozen="on")
    assert "It is 2030-01-01T00:00:00.000Z now." in page
    assert "the clock is frozen" in page
    for wrong in ("soon", "nan", "-1", "1e99", ""):
        assert (await console.send(PATH, "advance", number=wrong, unit="days")).status == 400
    assert (await console.send(PATH, "set-clock", now="soon")).status == 400


async def test_a_reset_empties_the_server(console: ConsoleClient) -> None:
    await console.send("/console/projects", "create", name="Gone", project_id="gone")
    await console.send(PATH, "advance", number="1", unit="days")

    page = await console.change(PATH, "reset")

    assert "The server is reset" in page
    assert "clock +0 s" in page
    assert "There are no projects yet: create one" in await console.page("/console/projects")


async def test_a_server_that_no_test_controls_has_no_such_page(console: ConsoleClient) -> None:
    assert "Faults and clock" in await console.page("/console/projects")
