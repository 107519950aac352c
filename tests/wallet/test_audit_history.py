"""The audit log is read from its end, a bounded part at a time, whatever the file holds."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from bridge_server.kernel.errors import UnavailableError
from bridge_server.wallet.signing import MOST_BYTES, read_history
from tests.support.rows import each_row


def line(number: int, size: int = 0) -> bytes:
    return orjson.dumps({"number": number, "text": "x" * size}) + b"\n"


def numbers(file: Path, limit: int, most_bytes: int = MOST_BYTES) -> list[int]:
    """All entries, page by page."""
    found: list[dict[str, Any]] = []
    before = None
    while True:
        page = read_history(file, before, limit, most_bytes)
        assert len(page.entries) <= limit
        found += page.entries
        if page.rest is None:
            return [entry["number"] for entry in found]
        assert before is None or page.rest < before
        before = page.rest


@each_row("limit", [1, 7, 1000])
@each_row("count", [0, 1, 7, 500])
def test_pages_have_every_line_once(tmp_path: Path, count: int, limit: int) -> None:
    file = tmp_path / "audit.log"
    file.write_bytes(b"".join(line(number, 300) for number in range(count)))

    assert numbers(file, limit) == list(reversed(range(count)))


def test_a_page_reads_a_part_of_a_long_file_and_the_next_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    file.write_bytes(b"".join(line(number, 20_000) for number in range(30)))

    page = read_history(file, None, 1000, 2**17)

    assert 1 < len(page.entries) < 10
    assert numbers(file, 1000, 2**17) == list(reversed(range(30)))


def test_a_line_longer_than_a_part_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    file.write_bytes(line(0) + line(1, 2**19) + line(2))

    assert numbers(file, 10, 2**17) == [2, 0]


@each_row("broken", [b'{"number":', b"\n", b"[1]\n", b"\xff\n", b'{"number":' + b"\n"])
def test_a_line_that_is_no_entry_is_left_out(tmp_path: Path, broken: bytes) -> None:
    file = tmp_path / "audit.log"
    end = b"" if broken.endswith(b"\n") else b"\n"
    file.write_bytes(line(0) + broken + end + line(1) + broken)

    assert numbers(file, 1) == [1, 0]


def test_a_file_that_was_replaced_by_a_shorter_one_is_read_from_its_end(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    file.write_bytes(line(0))

    assert [entry["number"] for entry in read_history(file, 10**9, 5).entries] == [0]


def test_no_file_has_no_entries_and_a_directory_cannot_be_read(tmp_path: Path) -> None:
    assert read_history(tmp_path / "none", None, 5).entries == []
    with pytest.raises(UnavailableError):
        read_history(tmp_path, None, 5)
