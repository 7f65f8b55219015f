"""Settings that every test shares."""

import os
import shutil
import signal
from collections import Counter
from importlib.util import find_spec

import pytest
from hypothesis import settings

# A busy machine is not a bug, and a failure must come back when it is looked for.
settings.register_profile("proxyprox", deadline=None, derandomize=True)
settings.load_profile("proxyprox")

# numba, which ppi_py brings, compiles for a quarter of a minute what takes a moment; it reads this
# when it is first imported, by whatever test.
os.environ.setdefault("NUMBA_DISABLE_JIT", "1")

# What waiting for the disk is for, a power failure, no test can see; a bad descriptor still fails.
os.fsync = os.fstat

TORCH = [
    "tests/torch", "src/proxyprox/torch", "tests/experiments/cifar10",
    "tests/experiments/test_cuda_graphs.py", "experiments/cuda_graphs.py", "experiments/cifar10",
]  # fmt: skip
DASK = ["tests/dask", "src/proxyprox/dask"]
# Only what needs gymnasium or MuJoCo to be imported; tests of them skip themselves.
SIM = ["src/proxyprox/simulation/robots.py"]
NEEDS = {"torch": TORCH, "distributed": DASK, "gymnasium": SIM}
MISSING = {library: paths for library, paths in NEEDS.items() if not find_spec(library)}
collect_ignore = [path for paths in MISSING.values() for path in paths]


def pytest_configure(config):
    """Undo what `nohup` and a shell's `&` do, which children inherit: tests send these signals."""
    handlers = {
        "SIGINT": signal.default_int_handler,
        "SIGTERM": signal.SIG_DFL,
        # Not the default: the suite itself survives a hang-up. Children start with the default.
        "SIGHUP": lambda number, frame: None,
    }
    for name, handler in handlers.items():
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_terminal_summary(terminalreporter):
    """Say what was skipped and why: one line for each reason, with its count."""
    reasons = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        longrepr = report.longrepr
        reason = longrepr[-1] if isinstance(longrepr, tuple) else str(longrepr)
        reasons[reason.removeprefix("Skipped: ") or "no reason given"] += 1
    if reasons or MISSING:
        terminalreporter.section("skipped, and why")
    for reason, count in sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0])):
        terminalreporter.line(f"{count:5} {reason}")
    for library, paths in MISSING.items():
        terminalreporter.line(f"      not collected without {library}: {', '.join(paths)}")


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Yield a headless Chromium without a network, or skip."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no chromium with chromedriver on PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        "--window-size=1400,1000",
        # Every name but this machine's resolves to nothing: the page has no network.
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield chrome
    chrome.quit()
