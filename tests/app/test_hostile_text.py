"""Text of a stranger's, in files and on the command line: shown by every command, never obeyed."""

import re

import pytest

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
