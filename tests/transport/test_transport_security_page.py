"""docs/security.md: its commands work as they stand, and the lines and variables it names are the programs' own."""

from __future__ import annotations

import re
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from framing.frames import encode_frame
from robopro_eval.settings.help import knob_of
from robopro_eval.settings.link import LinkSettings
from robopro_eval.transport import auth, sockets
from robopro_eval.transport.blocking import BlockingChannel
from robopro_eval.transport.security import MIN_TOKEN, LinkSecurity, secure

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
SCRIPTS = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's commands have run."""
    folder = tmp_path_factory.mktemp("page")
    for script in SCRIPTS:
        subprocess.run(["bash", "-eu", "-c", script], cwd=folder, check=True, capture_output=True)
    return folder


def test_the_token_can_be_used_as_it_is(folder: Path) -> None:
    security = LinkSecurity.from_values(token_file=folder / "link.token")
    assert security.token is not None
    assert len(bytes.fromhex(security.token.decode())) == 32
    assert security.warnings == ()


@pytest.mark.parametrize("mutual", [True, False])
def test_the_certificates_can_be_used_as_they_are(folder: Path, mutual: bool) -> None:
    model = LinkSecurity.from_values(
        cert=folder / "node-1.pem", key=folder / "node-1.key", ca=folder / "ca.pem" if mutual else None
    )
    simulator = LinkSecurity.from_values(
        cert=folder / "node-2.pem" if mutual else None,
        key=folder / "node-2.key" if mutual else None,
        ca=folder / "ca.pem",
    )
    assert model.warnings == simulator.warnings == ()
    with sockets.listen("127.0.0.1", 0) as listener:
        dialed = sockets.dial(sockets.bound_address(listener), attempts=1)
        accepted, _ = sockets.accept(listener)

    def serve(sock: socket.socket) -> None:
        with BlockingChannel(secure(sock, model, listening=True)) as channel:
            channel.send(encode_frame(channel.receive(5)), 5)

    thread = threading.Thread(target=serve, args=(accepted,))
    thread.start()
    with BlockingChannel(secure(dialed, simulator, listening=False, host="node-1")) as channel:
        channel.send(encode_frame(b"hello"), 5)
        assert bytes(channel.receive(5)) == b"hello"
    thread.join()


def test_the_table_of_variables_is_the_settings_own() -> None:
    rows = re.findall(r"^\| `(EVAL_LINK_\w+)` \| (?:`--(\w+)`|none) \|", PAGE, re.MULTILINE)
    own = []
    for name, field in LinkSettings.model_fields.items():
        knob = knob_of(field)
        own.append((knob.env[0], "" if knob.secret else name))
    assert rows == own


def test_numbers_are_the_programs_own() -> None:
    assert f"at least {MIN_TOKEN} characters" in PAGE
    assert f"{auth.AUTH_SECONDS:g} s at most, in messages of at most {auth.AUTH_MAX_FRAME // 1024} KiB" in PAGE


def test_the_lines_it_explains_are_printed_somewhere() -> None:
    sources = "".join(
        path.read_text("utf-8") for room in ("transport", ".") for path in (ROOT / "robopro_eval" / room).glob("*.py")
    ) + (ROOT / "framing" / "frames.py").read_text("utf-8")
    table = PAGE[PAGE.index("| the line says") :]
    lines = [
        line for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for line in re.findall(r"`([^`]+)`", row)
    ]
    assert len(lines) >= 10
    for line in lines:
        assert line in sources, line
