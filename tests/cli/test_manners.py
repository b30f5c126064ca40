"""How the command line behaves in a shell: real processes, a real terminal, real signals."""

import errno
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.requirement("G3")

COLOUR = re.compile(r"\x1b\[\d+m")
PLAIN = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "TERM"}}


def on_terminal(config: Path, *words: str, environment: Mapping[str, str]) -> str:
    """What a terminal gets to show."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "edgeagent", "--config", str(config), *words],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**PLAIN, **environment},
    ) as process:
        os.close(slave)
        shown = _all_of(master)
        process.wait(timeout=60)
    return shown


def _all_of(master: int) -> str:
    """All that comes until the other end is closed."""
    parts = []
    with os.fdopen(master, "rb", buffering=0) as screen:
        while True:
            try:
                part = screen.read(4096)
            except OSError as why:
                # A terminal that nobody has open any more (pty(7)).
                if why.errno != errno.EIO:
                    raise
                break
            if not part:
                break
            parts.append(part)
    return b"".join(parts).decode()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration of a hub on which no agent runs."""
    file = tmp_path / "config.toml"
    file.write_text(f'[hub]\nid = "venue-7"\nstate_dir = "{tmp_path}"\nrun_dir = "{tmp_path}"\n', "utf-8")
    return file


@pytest.mark.parametrize(
    ("words", "environment", "coloured"),
    [
        ((), {"TERM": "xterm"}, True),
        ((), {"TERM": "xterm", "NO_COLOR": ""}, True),
        ((), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        ((), {"TERM": "dumb"}, False),
        (("--color", "never"), {"TERM": "xterm"}, False),
        (("--color=always",), {"TERM": "dumb", "NO_COLOR": "1"}, True),
        (("--json", "--color", "always"), {"TERM": "xterm"}, False),
    ],
    ids=["a terminal", "nothing said", "nobody wants it", "a dumb one", "never", "always", "JSON"],
)
def test_a_terminal_gets_colours_where_it_shows_them_and_nobody_objects(
    config: Path, words: tuple[str, ...], environment: Mapping[str, str], *, coloured: bool
) -> None:
    shown = on_terminal(config, "health", *words, environment=environment)

    assert "does not answer" in shown
    assert (COLOUR.search(shown) is not None) is coloured


def said(words: Sequence[str], *, out: int) -> subprocess.CompletedProcess[str]:
    """Run a command line whose answer goes to a file."""
    return subprocess.run(
        [sys.executable, "-m", "edgeagent", *words],
        stdout=out,
        stderr=subprocess.PIPE,
        env={**PLAIN, "TERM": "xterm"},
        text=True,
        timeout=60,
        check=False,
    )


def test_what_is_no_terminal_gets_no_colours(config: Path, tmp_path: Path) -> None:
    with (tmp_path / "out").open("w+") as file:
        said(["--config", str(config), "health"], out=file.fileno())
        file.seek(0)

        assert COLOUR.search(file.read()) is None


@pytest.mark.parametrize("words", [["config", "keys"], ["config", "keys", "--json"]])
def test_a_reader_that_has_gone_ends_it_quietly(words: list[str]) -> None:
    gone, ours = os.pipe()
    os.close(gone)

    done = said(words, out=ours)
    os.close(ours)

    assert (done.returncode, done.stderr) == (141, "")


def test_an_answer_for_which_there_is_no_space_is_told() -> None:
    full = os.open("/dev/full", os.O_WRONLY)

    done = said(["config", "keys"], out=full)
    os.close(full)

    assert done.returncode == 1
    assert done.stderr == (
        "edgeagent: the answer cannot be written: no space is left\n  next: df, or print it elsewhere\n"
    )


def test_an_interrupt_ends_it_quietly(config: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="edgeagent-") as run_dir, socket.socket(socket.AF_UNIX) as silent:
        config.write_text(f'[hub]\nid = "venue-7"\nstate_dir = "{run_dir}"\nrun_dir = "{run_dir}"\n', "utf-8")
        silent.settimeout(60)
        silent.bind(f"{run_dir}/admin.sock")
        silent.listen()
        process = subprocess.Popen(
            [sys.executable, "-m", "edgeagent", "--config", str(config), "status"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        asking, _ = silent.accept()
        with asking:
            asking.recv(1)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)

    assert (process.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize(
    ("typed", "agreed"),
    [(b"y\n", True), (b"Yes\n", True), (b"n\n", False), (b"\n", False), (b"\x04", False)],
    ids=["y", "yes", "n", "nothing", "the end"],
)
def test_only_who_says_yes_has_agreed(typed: bytes, *, agreed: bool) -> None:
    ask = "from edgeagent.cli.agreeing import agrees; print(agrees('Sure?', 'add --yes'))"
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", ask], stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        os.close(slave)
        os.write(master, typed)
        out, err = process.communicate(timeout=60)
    os.close(master)

    assert (out.decode().strip(), err) == (str(agreed), b"Sure? [y/N] ")


@pytest.mark.parametrize(
    ("typed", "told"),
    [(b"\x04", "no passphrase was given"), (b"\xe4\xf6\xfc\n", "is no text in this terminal's encoding")],
    ids=["the end", "another encoding"],
)
def test_who_gives_no_passphrase_is_told_so(tmp_path: Path, typed: bytes, told: str) -> None:
    policy = tmp_path / "policy.toml"
    with policy.open("wb") as file:
        assert said(["issuer", "policy", "sample"], out=file.fileno()).returncode == 0
    words = ["issuer", "init", str(tmp_path / "venue"), "--policy", str(policy)]
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "edgeagent", *words],
        stdin=slave,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**PLAIN, "PYTHONIOENCODING": "utf-8:strict"},
        start_new_session=True,  # or it would ask at the terminal of who runs the tests
    ) as process:
        os.close(slave)
        assert process.stderr is not None
        asked = b""
        while not asked.endswith(b": ") and (sign := process.stderr.read(1)):
            asked += sign
        os.write(master, typed)
        _, err = process.communicate(timeout=60)
    os.close(master)

    assert (process.returncode, told in err.decode()) == (78, True)
    assert b"Traceback" not in err


@pytest.mark.parametrize("code", ["EA-ABCDE".encode("utf-16"), b"EA-\xff\xfe", b"\xe4"])
def test_a_claim_code_in_another_encoding_is_none(tmp_path: Path, code: bytes) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "edgeagent", "--config", str(tmp_path / "none"), "setup", "--claim", "-"],
        input=code,
        capture_output=True,
        env={**PLAIN, "PYTHONIOENCODING": "utf-8:strict"},
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert b"claim code" in done.stderr
    assert b"Traceback" not in done.stderr
