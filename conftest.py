"""Settings that every test shares."""

import os
import shutil
import signal
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
collect_ignore = ([] if find_spec("torch") else TORCH) + ([] if find_spec("distributed") else DASK)
collect_ignore += [] if find_spec("gymnasium") else SIM


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


@pytest.fixture(scope="module")
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
