"""Pairing URIs in pictures: PNG files of every usual kind, and what is said of other pictures."""

import sys
from io import BytesIO
from pathlib import Path

import pytest
import zxingcpp
from PIL import Image

from bridge_server.kit.headless.scan import ScanError, uri_in_picture
from tests.headless.dapps import dapp_at
from tests.headless.test_control_api import controlled
from tests.support.command import run_command
from tests.support.rows import each_row
from tests.support.server import RunningServer

URI = "wc:" + "5a" * 16 + "@1?bridge=https%3A%2F%2Fbridge.example&key=" + "0f" * 32


def qr_code(text: str) -> Image.Image:
    """A QR code in grey, as a page shows it."""
    code = zxingcpp.create_barcode(text, zxingcpp.BarcodeFormat.QRCode)
    return Image.fromarray(code.to_image(scale=4, add_quiet_zones=True))


def png(picture: Image.Image, kind: str = "PNG") -> bytes:
    """The picture as a file."""
    file = BytesIO()
    picture.save(file, kind)
    return file.getvalue()


@each_row("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_the_uri_of_a_qr_code_is_found(mode: str) -> None:
    assert uri_in_picture(png(qr_code(URI).convert(mode))) == URI


@each_row(("dark", "bright"), [(0x00, 0xFF), (0x20, 0xA0)])
def test_the_uri_is_found_in_grey_of_16_bits(dark: int, bright: int) -> None:
    code = qr_code(URI)
    pixels = b"".join(bytes([0, bright if value else dark]) for value in code.tobytes())  # low byte first

    assert uri_in_picture(png(Image.frombytes("I;16", code.size, pixels))) == URI


@each_row(
    ("content", "said"),
    [
        (b"", "the picture is no PNG that can be read: give a screenshot"),
        (b"<!DOCTYPE html>", "the picture is no PNG that can be read: give a screenshot"),
        (png(qr_code(URI), "GIF"), "the picture is no PNG that can be read: give a screenshot"),
        (png(qr_code(URI))[:8], "the picture is no PNG that can be read: give a screenshot"),
        (png(qr_code(URI))[:200], "broken off or damaged"),
        (png(Image.new("1", (8_000, 8_000))), "8000 times 8000 pixels, which is none or too many"),
        (png(qr_code("https://example.org")), "not one of a pairing URI"),
        (png(Image.new("L", (8, 8))), "no QR code that can be read"),
    ],
    ids=["empty", "page", "gif", "signature", "truncated", "bomb", "other code", "no code"],
)
def test_a_picture_without_a_uri(content: bytes, said: str) -> None:
    with pytest.raises(ScanError, match=said):
        uri_in_picture(content)


async def test_pairing_by_a_picture_over_the_control_api(relay: RunningServer) -> None:
    headers = {"Content-Type": "image/png"}
    async with controlled() as (_, control), dapp_at(relay.url, "1.x") as dapp:
        picture = png(qr_code(dapp.uri))
        status, paired = await control("POST", "/pair", picture, headers=headers)
        broken, problem = await control("POST", "/pair", b"\x89PNG", headers=headers)

    assert (status, paired["session"]["state"]) == (200, "approved")
    assert (broken, "no PNG" in problem["detail"]) == (400, True)


@pytest.mark.parametrize("library", ["PIL", "zxingcpp"])
async def test_without_a_library_the_answer_says_what_to_install(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # as where it is not installed
    async with controlled() as (_, control):
        status, problem = await control("POST", "/pair", b"", headers={"Content-Type": "image/png"})

    assert (status, "python -m pip install zxing-cpp pillow" in problem["detail"]) == (415, True)


def test_the_command_reads_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "code.png"
    uri = URI.replace("https%3A%2F%2Fbridge.example", "http%3A%2F%2F127.0.0.1%3A1")
    picture.write_bytes(png(qr_code(uri)))
    finished = run_command("wallet", "--scan", picture, "--quiet")

    assert (finished.exit_code, "http://127.0.0.1:1 cannot be used" in finished.err) == (1, True)
