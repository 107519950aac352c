"""The command `bridge-server` of a shell's script, in forked processes."""

import sys
from pathlib import Path

from tests.support.fork_server import NUMBER_SIZE
from tests.support.forked_process import fork_server

# A program without the packages of the environment starts within a few milliseconds. It asks the fork server,
# hands signals on, and ends as the process does.
_PROGRAM = """#!{python} -IS
import json, os, signal, socket, sys

NUMBERS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)

def hand_on(number, _):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass

signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)
with socket.socket(socket.AF_UNIX) as conversation:
    conversation.connect({address!r})
    socket.send_fds(conversation, [b"!"], [0, 1, 2])
    wanted = {{
        "arguments": sys.argv[1:], "environment": dict(os.environ), "directory": os.getcwd(),
        "open_files": None, "program": None,
    }}
    conversation.sendall(json.dumps(wanted).encode() + b"\\n")
    pid = int(conversation.recv({size}, socket.MSG_WAITALL))
    for number in NUMBERS:
        signal.signal(number, hand_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, NUMBERS)
    code = int(conversation.recv({size}, socket.MSG_WAITALL))
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


def folder_of_command(folder: Path) -> Path:
    """A new folder below, for PATH, whose `bridge-server` runs each command in a forked process."""
    programs = folder / "programs"
    programs.mkdir()
    program = programs / "bridge-server"
    address = str(fork_server().address)
    program.write_text(_PROGRAM.format(python=sys.executable, address=address, size=NUMBER_SIZE), "utf-8")
    program.chmod(0o700)
    return programs
