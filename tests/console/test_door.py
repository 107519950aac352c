"""What the console's door refuses: other hosts, frames, forged changes; and what every page forbids."""

from tests.support.asking import Answer
from tests.support.console_client import FORM, ConsoleClient
from tests.support.rows import each_row
from tests.support.server import RunningServer

PROJECTS = "/console/projects"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


def check_headers(answer: Answer) -> None:
    headers = answer.headers
    assert headers["Content-Security-Policy"] == POLICY
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert not [name for name in headers if name.lower().startswith("access-control")]


@each_row("path", ["/console", PROJECTS, "/console/faults", "/console/nothing"])
async def test_every_page_forbids_frames_foreign_scripts_and_caches(
    console: ConsoleClient, path: str
) -> None:
    check_headers(await console.get(path))
    check_headers(await ConsoleClient(console.server).get(path))


@each_row("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "a,b", ""])
@each_row("path", ["/console", PROJECTS, "/console/sign-in", "/console/events"])
async def test_another_host_is_refused(console: ConsoleClient, host: str, path: str) -> None:
    answer = await console.get(path, headers={"Host": host})

    assert answer.status == 403
    assert "localhost" in answer.body.decode()


async def test_a_page_in_a_frame_is_refused(console: ConsoleClient) -> None:
    for place in ("iframe", "frame", "embed", "object"):
        answer = await console.get(PROJECTS, headers={"Sec-Fetch-Dest": place})

        assert answer.status == 403
        assert "in a window of its own" in answer.body.decode()
        check_headers(answer)


@each_row(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_a_form_of_another_page_changes_nothing(
    console: ConsoleClient, headers: dict[str, str]
) -> None:
    answer = await console.send(PROJECTS, "create", headers, name="Forged", project_id="forged")

    assert answer.status == 403
    assert "Nothing was changed" in answer.body.decode()
    assert (await console.get(f"{PROJECTS}/forged")).status == 404


async def test_a_form_of_this_console_is_taken(console: ConsoleClient) -> None:
    headers = {"Origin": console.server.url, "Sec-Fetch-Site": "same-origin"}

    answer = await console.send(PROJECTS, "create", headers, name="Own", project_id="own")

    assert answer.status == 303


async def test_a_form_wants_the_token_of_its_own_session(console: ConsoleClient) -> None:
    other = await ConsoleClient(console.server).sign_in()
    fields = {"do": "create", "name": "Forged", "project_id": "forged"}

    for form in (fields, {**fields, "form_token": ""}, {**fields, "form_token": await other.form_token()}):
        answer = await console.post(PROJECTS, form)

        assert answer.status == 403
        assert "repeat the change" in answer.body.decode()
    assert (await console.get(f"{PROJECTS}/forged")).status == 404


async def test_a_change_without_a_session_is_refused(console: ConsoleClient) -> None:
    form = {"form_token": await console.form_token(), "do": "create", "name": "Forged"}

    assert (await ConsoleClient(console.server).post(PROJECTS, form)).status == 401


async def test_a_body_that_is_no_form_and_an_unknown_change_are_refused(console: ConsoleClient) -> None:
    token = await console.form_token()
    json = await console.post(PROJECTS, {"form_token": token}, content_type="application/json")
    unknown = await console.post(PROJECTS, {"form_token": token, "do": "explode"})
    many = await console.post(PROJECTS, {"form_token": token, **{f"f{n}": "" for n in range(200)}})

    assert (json.status, unknown.status, many.status) == (415, 400, 400)
    assert "no such change" in unknown.body.decode()


async def test_a_form_may_have_256_kib(console: ConsoleClient) -> None:
    answer = await console.post(PROJECTS, {"form_token": "x" * 2**18})

    assert answer.problem(413)


async def test_bytes_that_are_no_text_are_refused(console: ConsoleClient, server: RunningServer) -> None:
    cookie = "; ".join(f"{name}={value}" for name, value in console.cookies.items())
    headers = {"Cookie": cookie, "Content-Type": FORM}
    async with server.client.post(server.url + PROJECTS, data=b"do=\xff", headers=headers) as response:
        assert response.status == 400


async def test_static_files_are_kept_for_long_and_found_by_their_digest(console: ConsoleClient) -> None:
    page = await console.page(PROJECTS)
    path = page.partition('href="/console/static/')[2].partition('"')[0]

    answer = await console.get(f"/console/static/{path}")

    assert answer.headers["Content-Type"] == "text/css; charset=utf-8"
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert (await console.get("/console/static/pages.css")).status == 404
    assert (await console.get("/console/static/..%2fhandlers.py")).status == 404
