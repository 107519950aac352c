"""Pairing URIs in pictures: PNG files of every usual kind, and what is said of other pictures."""

import random
from pathlib import Path

import pytest

from bridge_server.headless import scan
from bridge_server.headless.png import PictureError, read_png
from bridge_server.headless.scan import ScanError, uri_in_picture
from tests.headless.dapps import dapp_at
from tests.headless.pictures import PNG_SIGNATURE, chunk, filtered, png, qr_png
from tests.headless.test_control_api import controlled
from tests.support.command import run_command
from tests.support.server import RunningServer

URI = "wc:" + "5a" * 16 + "@1?bridge=https%3A%2F%2Fbridge.example&key=" + "0f" * 32


@pytest.mark.parametrize("filter_kind", range(5))
def test_the_uri_of_a_qr_code_is_found(filter_kind: int) -> None:
    assert uri_in_picture(qr_png(URI, filter_kind=filter_kind)) == URI


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"GIF89a", "the picture is no PNG: give a screenshot"),
        (qr_png("https://example.org"), "not one of a pairing URI"),
        (png(8, 8, 8, 0, [b"\0" + bytes(8)] * 8), "no QR code that can be read"),
        (qr_png(URI)[:200], "broken off"),
        (PNG_SIGNATURE, "broken off"),
    ],
)
def test_a_picture_without_a_uri(content: bytes, said: str) -> None:
    with pytest.raises(ScanError, match=said):
        uri_in_picture(content)


@pytest.mark.parametrize("filter_kind", range(5))
@pytest.mark.parametrize(
    ("depth", "colour", "channels"), [(8, 0, 1), (8, 2, 3), (8, 4, 2), (8, 6, 4), (16, 2, 6), (16, 0, 2)]
)
def test_rows_of_random_pixels_are_read_as_they_were(
    filter_kind: int, depth: int, colour: int, channels: int
) -> None:
    chance = random.Random(f"{filter_kind} {depth} {colour}")
    pixels = [chance.randbytes(5 * channels) for _row in range(4)]
    aboves = [bytes(5 * channels), *pixels]
    rows = [
        bytes([filter_kind]) + filtered(filter_kind, row, above, channels)
        for row, above in zip(pixels, aboves, strict=False)
    ]
    picture = read_png(png(5, 4, depth, colour, rows))

    step = channels * 8 // depth
    place = 1 if colour in (2, 6) else 0
    size = depth // 8
    expected = b"".join(row[place * size :: channels] if step else row for row in pixels)
    assert (picture.width, picture.height, picture.brightness) == (5, 4, expected)


def test_small_depths_and_palettes_are_read() -> None:
    black_and_white = png(10, 1, 1, 0, [b"\0\xaa\x80"])
    palette = png(3, 1, 8, 3, [b"\0\0\1\2"], chunk(b"PLTE", bytes([1, 10, 1, 2, 20, 2, 3, 30, 3])))

    assert read_png(black_and_white).brightness == b"\xff\0" * 4 + b"\xff\0"
    assert read_png(palette).brightness == bytes([10, 20, 30])


@pytest.mark.parametrize("size", [(0, 1), (100_000, 100_000)])
def test_a_picture_of_no_size_is_refused(size: tuple[int, int]) -> None:
    with pytest.raises(PictureError, match="none or too many"):
        read_png(png(*size, 8, 0, []))


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_READER", "no_such_library")

    with pytest.raises(ScanError, match="python -m pip install zxing-cpp"):
        uri_in_picture(qr_png(URI))


async def test_pairing_by_a_picture_over_the_control_api(
    relay: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"Content-Type": "image/png"}
    async with controlled() as (_, control), dapp_at(relay.url, "1.x") as dapp:
        status, paired = await control("POST", "/pair", qr_png(dapp.uri), headers=headers)
        broken, problem = await control("POST", "/pair", b"\x89PNG", headers=headers)
        monkeypatch.setattr(scan, "_READER", "no_such_library")
        missing, hint = await control("POST", "/pair", qr_png(dapp.uri), headers=headers)

    assert (status, paired["session"]["state"]) == (200, "approved")
    assert (broken, "no PNG" in problem["detail"]) == (400, True)
    assert (missing, "pip install zxing-cpp" in hint["detail"]) == (415, True)


def test_the_command_reads_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "code.png"
    picture.write_bytes(qr_png(URI.replace("https%3A%2F%2Fbridge.example", "http%3A%2F%2F127.0.0.1%3A1")))
    finished = run_command("wallet", "--scan", picture, "--quiet")

    assert (finished.exit_code, "http://127.0.0.1:1 cannot be used" in finished.err) == (1, True)
