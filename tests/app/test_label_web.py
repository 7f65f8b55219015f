"""``proxyprox label --web``: who is answered, what counts, and the page in a real browser."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from proxyprox.sklearn import LabelBudget, ProxyLogisticRegression
from proxyprox_app.cli.label import Session, read_pool
from proxyprox_app.cli.label_web import Server

EVIL = (
    "<img src=x onerror='document.title=\"owned\"'></script><script>document.title='owned'</script>"
)
ROLES = {name: [] for name in ("show", "hide", "label", "teacher")}


@pytest.fixture
def server(tmp_path):
    """Yield a server of 40 rows with hostile cells; the first class says so of a row's number."""
    path = tmp_path / "rows.csv"
    text = EVIL.replace('"', '""')
    lines = [f'{i},{i % 7 - 3},"{text} {i}"' for i in range(40)]
    path.write_text("\n".join(["number,a,text", *lines]) + "\n")
    classes = [f"up{EVIL}", "down"]
    pool = read_pool(path, ROLES, {"number": "number"}, classes)
    budget = LabelBudget(
        ProxyLogisticRegression(alpha=0.1), pool.X, budget=12, batch_size=4,
        path=tmp_path / "answers", about={"classes": classes},
    )  # fmt: skip
    with budget, Server(Session(budget, pool, classes), f"rows{EVIL}.csv", 0) as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def request(server, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=300)
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    if content is not None:
        names.setdefault("Content-Type", "application/json")
    try:
        connection.request(method, path, content, names)
        reply = connection.getresponse()
        text = reply.read()
    finally:
        connection.close()
    kind = reply.headers.get_content_type()
    found = json.loads(text) if kind == "application/json" else text.decode()
    return reply.status, found, dict(reply.headers)


@pytest.fixture
def act(server):
    def send(what, row, **more):
        body = {"do": what, "row": row, "comment": "", **more}
        status, state, _ = request(server, "POST", f"/{server.token}/act", body)
        assert status == 200, state
        return state

    return send


def test_only_this_page_on_this_computer_is_answered(server):
    home, act = f"/{server.token}/", f"/{server.token}/act"
    row = request(server, "GET", f"{home}state")[1]["row"]
    body = {"do": "answer", "row": row, "choice": 0, "comment": ""}
    foreign = {"Host": "evil.example", "Origin": "http://evil.example"}
    assert server.server_address[0] == "127.0.0.1"
    for status, method, path, content, headers in (
        (421, "GET", home, None, {"Host": f"evil.example:{server.server_port}"}),
        (421, "GET", f"{home}labels.csv", None, {"Host": "127.0.0.1:1"}),
        (421, "POST", act, body, foreign),
        (404, "GET", "/", None, {}),
        (404, "GET", f"/{server.token}", None, {}),
        (404, "GET", "/wrong/state", None, {}),
        (404, "GET", f"{home}../../etc/passwd", None, {}),
        (404, "POST", "/wrong/act", body, {}),
        (403, "POST", act, body, {"Origin": "http://evil.example"}),
        (403, "POST", act, body, {"Origin": "null"}),
        (415, "POST", act, body, {"Content_Type": "text/plain"}),
        (413, "POST", act, b"[" * 70_000, {}),
        (400, "POST", act, b"[" * 60_000, {}),
        (400, "POST", act, [], {}),
        (400, "POST", act, {"do": "erase", "row": row, "comment": ""}, {}),
        (400, "POST", act, body | {"choice": 2}, {}),
        (400, "POST", act, body | {"choice": True}, {}),
    ):
        found = request(server, method, path, content, **headers)
        assert found[0] == status, (method, path, content, headers, found)
    assert server.session.bought.spent == 0
    status, page, headers = request(server, "GET", home)
    assert status == 200
    assert "NONCE" not in page
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "http://" not in page
    assert "https://" not in page
    own = {"Origin": f"http://127.0.0.1:{server.server_port}"}
    assert request(server, "POST", act, body, **own)[0] == 200
    assert server.session.bought.spent == 1


def test_an_answer_counts_once_and_for_its_row(server, act):
    bought = server.session.bought
    first = request(server, "GET", f"/{server.token}/state")[1]
    second = act("answer", first["row"], choice=0)
    assert second["row"] != first["row"]
    again = act("answer", first["row"], choice=1)  # a double click, or another window
    assert "answered already" in again["notice"]
    assert again["row"] == second["row"]
    assert bought.labels == {first["row"]: server.session.classes[0]}
    row = second["row"]
    third = act("skip", row, comment=" what is =this? ")
    assert (bought.declined, bought.comments) == ({row}, {row: "what is =this?"})
    assert third["undo"] == row
    back = act("undo", row)
    assert (back["row"], back["comment"], bought.declined) == (row, "what is =this?", set())
    assert "out of date" in act("undo", second["row"])["notice"]
    assert act("undo", first["row"])["undo"] is None
    assert (bought.labels, bought.spent) == ({}, 0)


def test_what_cannot_be_shown_or_kept(server, act):
    row = request(server, "GET", f"/{server.token}/state")[1]["row"]
    state = act("comment", row, comment="a\0b\x1b[31m\ud800 \u202e é\tc ")
    assert state["comment"] == "a\\x00b\\x1b[31m\\ud800 \\u202e é\tc"
    assert act("comment", row, comment=state["comment"])["comment"] == state["comment"]
    bought = server.session.bought
    bought.path.rename(bought.path.with_name("elsewhere"))
    body = {"do": "answer", "row": row, "choice": 0, "comment": state["comment"]}
    status, text, _ = request(server, "POST", f"/{server.token}/act", body)
    assert (status, bought.spent) == (500, 0)
    assert "cannot be used" in text
    bought.path.with_name("elsewhere").rename(bought.path)
    assert act("answer", row, choice=0, comment=state["comment"])["spent"] == 1
    assert "a\\x00b" in request(server, "GET", f"/{server.token}/labels.csv")[1]


def test_connections_that_send_slowly_keep_nobody_waiting(server):
    address = ("127.0.0.1", server.server_port)
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            one = stack.enter_context(socket.create_connection(address, timeout=300))
            one.sendall(b"GET / HTTP/1.1\r\nHost: ")
        assert request(server, "GET", f"/{server.token}/state")[0] == 200


@pytest.mark.skipif(os.name == "nt", reason="needs the signals of POSIX")
def test_the_command_ends_and_keeps_everything(tmp_path, invoke):
    path = tmp_path / "rows.csv"
    lines = [f"{i % 7},{(i + 3) % 5}" for i in range(20)]
    path.write_text("\n".join(["x1,x2", *lines]))
    command = ["label", str(path), "--classes", "up,down", "--web"]
    code = "from proxyprox_app.cli import main; main()"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code, *command], **pipes) as process:
        seen = b""
        while b"Ctrl-C stops" not in seen:
            seen += process.stderr.read1()
        found = re.search(rb"http://127\.0\.0\.1:(\d+)/(\S+)/", seen)
        assert found is not None
        place, home = SimpleNamespace(server_port=int(found[1])), f"/{found[2].decode()}"
        row = request(place, "GET", f"{home}/state")[1]["row"]
        body = {"do": "answer", "row": row, "choice": 1, "comment": "odd"}
        assert request(place, "POST", f"{home}/act", body)[1]["spent"] == 1
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    assert b"1 label (down 1; 1 with a comment)" in out
    resumed = invoke(*command[:-1], "--json")  # at the end of the input it stops
    assert json.loads(resumed.stdout)["classes"] == {"down": 1}


# -- in a browser -------------------------------------------------------------------------------


@pytest.mark.browser
def test_a_person_labels_in_the_browser(browser, server):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.wait import WebDriverWait

    bought = server.session.bought

    def wait(done):
        WebDriverWait(browser, 20, poll_frequency=0.05).until(lambda _: done())

    def row():
        found = re.fullmatch(r"Row (\d+)", browser.find_element("id", "row").text)
        return -1 if found is None else int(found[1]) - 1

    def press(key):
        ActionChains(browser).send_keys(key).perform()

    def idle():
        return row() >= 0 and browser.find_element("id", "skip").is_enabled()

    browser.get_log("browser")
    browser.get(server.address)
    wait(idle)
    assert EVIL in browser.find_element("id", "cells").text
    first = row()
    press("1")
    wait(lambda: row() not in (-1, first))
    assert list(bought.labels.items()) == [(first, f"up{EVIL}")]
    second = row()
    # Two clicks at once: one answer, of the row that was shown.
    button = "document.querySelectorAll('#classes button')[1].click();"
    browser.execute_script(button + button)
    wait(lambda: row() not in (-1, second) and idle())
    assert bought.labels == {first: f"up{EVIL}", second: "down"}
    press("u")
    wait(lambda: row() == second and idle())
    press("c")
    press(f"1 and u are letters here{Keys.ENTER}")
    wait(lambda: bought.comments)
    wait(idle)
    assert bought.comments == {second: "1 and u are letters here"}
    assert not browser.find_elements("css selector", "img, main script")
    assert [entry for entry in browser.get_log("browser") if entry["level"] != "INFO"] == []
