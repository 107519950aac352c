"""The directory of key files: written for good, shared with other programs, patient with foreign files.

White-box: what other programs do to files has moments that no client can choose.
"""

import os
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest
from structlog.testing import CapturingLogger

from bridge_server.ethereum.keystore import ScryptCost, make_keystore
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.kernel.errors import UnavailableError
from bridge_server.wallet import keystore_files
from bridge_server.wallet.keystore_files import KeystoreFiles
from bridge_server.wallet.models import AccountExistsError, Address
from tests.support.clock import ManualClock

KEY = SigningKey((1).to_bytes(32))
ADDRESS = Address(KEY.address.lower())
DIGITS = ADDRESS.removeprefix("0x")
OTHER = Address(SigningKey((2).to_bytes(32)).address.lower())


def key_file(number: int) -> bytes:
    options: dict[str, Any] = {"salt": bytes(32), "iv": bytes(16), "uuid": "an-id"}
    return make_keystore(number.to_bytes(32), b"passphrase", cost=ScryptCost(n=2, r=8, p=1), **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "data" / "keystore").mkdir(parents=True)
    return tmp_path / "data" / "keystore"


@pytest.fixture
def directory(path: Path) -> KeystoreFiles:
    return KeystoreFiles(path, ManualClock())


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock that the directory looks at; its last element is the time."""
    times = [1000.0]
    monkeypatch.setattr(keystore_files, "monotonic", lambda: times[-1])
    return times


def names(path: Path) -> Sequence[str]:
    return sorted(file.name for file in path.iterdir())


def test_a_written_file_is_named_as_by_geth_private_and_read_by_others(tmp_path: Path) -> None:
    path = tmp_path / "made" / "keystore"
    directory, another = KeystoreFiles(path, ManualClock()), KeystoreFiles(path, ManualClock())
    directory.write(ADDRESS, key_file(1))

    assert (another.addresses(), another.read(ADDRESS)) == ([ADDRESS], key_file(1))
    assert names(path) == [f"UTC--2027-01-15T08-00-00.000000000Z--{DIGITS}"]
    assert directory.file(ADDRESS) == path / names(path)[0]
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (directory.file(ADDRESS), path, path.parent)]
    assert modes == [0o600, 0o700, 0o700]


def test_one_of_many_writers_of_an_account_wins(path: Path) -> None:
    def write(number: int) -> bool:
        try:
            KeystoreFiles(path, ManualClock(number * 1000)).write(ADDRESS, key_file(1))
        except AccountExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        written = list(threads.map(write, range(16)))
    assert (sum(written), len(names(path))) == (1, 1)


def test_a_file_of_a_killed_writer_does_no_harm(directory: KeystoreFiles, path: Path) -> None:
    (path / ".partial").write_bytes(b"half a fi")
    assert directory.addresses() == []
    directory.write(ADDRESS, key_file(1))
    assert directory.read(ADDRESS) == key_file(1)
    assert len(names(path)) == 1


def test_files_that_come_or_go_are_seen(directory: KeystoreFiles, path: Path, seconds: list[float]) -> None:
    seen = [directory.addresses()]
    for number in (1, 2):
        (path / f"key-{number}").write_bytes(key_file(number))
        seen.append(directory.addresses())
    (path / "key-1").unlink()
    assert [*seen, directory.addresses()] == [[], [ADDRESS], [ADDRESS, OTHER], [OTHER]]


def test_a_file_within_a_tick_is_noticed(directory: KeystoreFiles, path: Path, seconds: list[float]) -> None:
    ns = path.stat().st_mtime_ns
    directory.addresses()
    (path / "key").write_bytes(key_file(1))
    os.utime(path, ns=(ns, ns))
    assert directory.addresses() == [ADDRESS]


def test_a_slow_copy_is_found_when_whole(directory: KeystoreFiles, path: Path, seconds: list[float]) -> None:
    (path / "key").write_bytes(key_file(1)[:100])
    seen = [directory.addresses()]
    seconds.append(1100.0)
    seen.append(directory.addresses())
    with (path / "key").open("ab") as stream:
        stream.write(key_file(1)[100:])
    seconds.append(1102.0)

    assert [*seen, directory.addresses()] == [[], [], [ADDRESS]]


def test_files_are_ordered_and_the_first_of_an_account_counts(directory: KeystoreFiles, path: Path) -> None:
    for name, number in (("c", 1), ("b", 2), ("a", 1)):
        (path / name).write_bytes(key_file(number))
    assert directory.addresses() == [ADDRESS, OTHER]
    assert directory.file(ADDRESS) == path / "a"


def test_a_file_that_names_no_address_has_that_of_its_name(directory: KeystoreFiles, path: Path) -> None:
    file = {name: value for name, value in orjson.loads(key_file(1)).items() if name != "address"}
    for name in (f"UTC--2016-03-22T12-57-55.9Z--{DIGITS}", "nameless"):
        (path / name).write_bytes(orjson.dumps(file))
    assert directory.addresses() == [ADDRESS]


def test_foreign_files_are_ignored_with_one_warning(
    directory: KeystoreFiles, path: Path, seconds: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = CapturingLogger()
    monkeypatch.setattr(keystore_files, "log", log)
    (path / "folder").mkdir()
    os.mkfifo(path / "pipe")
    (path / "dangling").symlink_to("nowhere")
    (path / "loop").symlink_to("loop")
    for name in (".hidden", "backup~", "README", "huge"):
        (path / name).write_bytes(b"x" * (2**20 if name == "huge" else 5))
    (path / "key").write_bytes(key_file(1))

    for moment in (1000.0, 1001.0, 1010.0, 1020.0):
        seconds.append(moment)
        assert directory.addresses() == [ADDRESS]
    assert [(*call.args, Path(call.kwargs["file"]).name) for call in log.calls] == [
        ("key_file_passed_over", "README"),
        ("key_file_passed_over", "huge"),
    ]


def test_a_directory_that_is_a_file_is_an_error(directory: KeystoreFiles, path: Path) -> None:
    path.rmdir()
    path.touch()
    for act in (directory.addresses, lambda: directory.read(ADDRESS), lambda: directory.write(ADDRESS, b"")):
        with pytest.raises(UnavailableError, match=f"{path}, cannot be used: "):
            act()


def test_a_file_may_be_a_link_to_another_place(directory: KeystoreFiles, path: Path) -> None:
    (path.parent / "mounted").write_bytes(key_file(1))
    (path / "key").symlink_to(path.parent / "mounted")
    assert directory.read(ADDRESS) == key_file(1)
