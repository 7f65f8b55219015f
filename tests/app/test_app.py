import errno
import json
import os
import re
import subprocess
import sys

import pytest
import typer

import proxyprox
from proxyprox._util.files import locked
from proxyprox_app.cli import app
from proxyprox_app.cli.console import CommandError, guarded

COMMANDS = ["", "demo", "run", "predict", "audit", "label", "plan", "budget"]


def test_help_fits_80_columns_and_has_examples(invoke):
    for command in COMMANDS:
        result = invoke(*command.split(), "--help")
        assert max(map(len, result.stdout.splitlines())) <= 80
        assert "\x1b" not in result.stdout
        assert "Examples" in result.stdout
        assert "130 interrupted" in result.stdout


def test_alone_it_lists_every_command_with_a_line(invoke):
    command = typer.main.get_command(app)
    shown = " ".join(invoke(code=None).stdout.replace("│", " ").split())
    assert {*command.commands} == {*COMMANDS} - {""}
    for name, below in command.commands.items():
        assert f"{name} {' '.join(below.help.split()[:4])}" in shown
    assert invoke("--version").stdout.strip() == f"proxyprox {proxyprox.__version__}"


def test_mistyped(invoke):
    for args, words in ((["demo", "--outptu", "x"], "--output"), (["dmeo"], "dmeo"),
                        (["demo", "--seeds", "0"], "seeds"), (["plan", "--delta", "1"], "sigma"),
                        ):  # fmt: skip
        result = invoke(*args, code=2)
        assert result.stdout == ""
        assert words in result.stderr
        assert "Traceback" not in result.stderr


def test_module_runs_and_survives_a_narrow_encoding():
    args = ["plan", "--delta=1", "--sigma=0", "--H=2", "--B=1", "--epsilon=0.1"]
    result = subprocess.run(
        [sys.executable, "-m", "proxyprox", *args], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "step size of ProxyProx" in result.stdout


def test_errors_become_messages_and_codes(capsys, monkeypatch):
    def raising(error):
        @guarded
        def command(as_json=False):
            raise error

        return command

    for error, code, words in (
        (CommandError("[model] l2 is [red]"), 2, "Error: [model] l2 is [red]\n"),
        (ValueError("eta must be positive"), 2, "eta must be"),
        (OSError(errno.EACCES, "Permission denied", "/x/y"), 2, "/x/y: Permission denied"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "make room"),
        (KeyError("w"), 1, "PROXYPROX_DEBUG=1"),
        (KeyboardInterrupt(), 130, "Interrupted"),
    ):
        with pytest.raises(typer.Exit) as caught:
            raising(error)(as_json=True)
        printed = capsys.readouterr()
        assert words in printed.err
        answer = json.loads(printed.out)
        assert caught.value.exit_code == answer["exit_code"] == code
        assert answer["error"] in printed.err
    monkeypatch.setenv("PROXYPROX_DEBUG", "1")
    with pytest.raises(KeyError):
        raising(KeyError("w"))()


def test_a_folder_that_cannot_be_written_is_refused(invoke, tmp_path):
    blocked, folder = tmp_path / "file", tmp_path / "out"
    blocked.write_text("")
    for place in (blocked, blocked / "below"):
        result = invoke("demo", "--output", place, code=2)
        assert re.search(r"cannot be written to .*--output", result.stderr, re.S)
    folder.mkdir()
    with locked(folder):
        result = invoke("demo", "--output", folder, code=2)
        assert "out'isbeingwritten" in "".join(result.stderr.split())
        assert [path.name for path in folder.iterdir()] == [".lock"]


# -- text of a stranger, in files and on the command line: shown by every command, never obeyed ---

HOSTILE = "\x1b[31m\x1b]0;owned\x07\x9b2J\r\x08\u202e\u2066\u200f[red][/link]"
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def shows(invoke, monkeypatch):
    """Run a command and return what it printed, once nothing in it acts on a terminal."""

    def call(*args):
        monkeypatch.setenv("COLUMNS", "2000")
        monkeypatch.setattr("proxyprox_app.cli.console.WIDEST", 2000)
        output = str(invoke(*args, code=None).output)
        assert not ACTING.search(output)
        assert "should not happen" not in output
        return output

    return call


def in_toml(text):
    """Return text as it stands between the quotes of a TOML file."""
    return re.sub(r"\\x(..)", r"\\u00\1", text.encode("unicode_escape").decode())


def test_names_of_files_columns_and_classes(shows, tmp_path):
    cell = HOSTILE.replace("\r", "")
    data, config = tmp_path / f"ro{cell.replace('/', '')}ws.csv", tmp_path / "mine.toml"
    settings = '[model]\nfamily = "logistic"\n[target]\n'
    settings += f'file = "{in_toml(data.name)}"\nlabel = "LABEL"\n'
    for table, label in (
        (f"a{cell},b\n1,x{cell}\n2,x{cell}\n", "b"),
        (f"a{cell},b\nx{cell},0\nx{cell},1\n", "b"),
        (f"a{cell},b\n1,2\n", f"c{cell}"),
        ("a,b\n1,2,3\n", "b"),
    ):
        data.write_text(table, encoding="utf-8")
        config.write_text(settings.replace("LABEL", in_toml(label)), encoding="utf-8")
        assert "\\x1b[31m" in shows("audit", config)


def test_text_of_the_configuration(shows, tmp_path):
    path = tmp_path / f"mine{HOSTILE.replace('/', '')}.toml"
    odd = in_toml(HOSTILE)
    for text in (
        f"[target]\nfile = \x1b{HOSTILE}",
        f'["{odd}"]\na = 1\n',
        f'[target]\nfile = "a.csv"\n"{odd}" = 1\n',
        f'[model]\nfamily = "{odd}"\n[target]\nfile = "a.csv"\n',
        f'[target]\nfile = "{odd}.csv"\nlabel = "x"\n',
        f'[target]\nfile = "sklearn:{odd}"\n',
    ):
        path.write_text(text, encoding="utf-8", newline="")
        assert "Error" in shows("audit", path)
    path.unlink()
    assert "\\x1b[31m" in shows("audit", path)


def test_words_on_the_command_line(shows, tmp_path):
    for words in (
        (HOSTILE,),
        (f"--{HOSTILE}",),
        ("audit", "a.toml", HOSTILE),
        ("plan", "--delta", HOSTILE),
        ("plan", f"--{HOSTILE}", "1"),
        ("label", tmp_path / HOSTILE.replace("/", ""), "--classes", HOSTILE),
        ("demo", "--output", tmp_path / f"no{HOSTILE}\x00"),
        ("label", "rows.csv", "--classes", "up,down", "--show", HOSTILE),
    ):
        shows(*words)
