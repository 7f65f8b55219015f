"""One small cluster for all tests here, and a table whose answers are known."""

import numpy as np
import pandas as pd
import pytest

distributed = pytest.importorskip("distributed")

N, D = 600, 4


@pytest.fixture(scope="session")
def cluster():
    # Threads, which start at once: benchmarks/dask_kills.py has processes and kills them.
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="session")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    chances = 1 / (1 + np.exp(-X @ np.array([1.0, -2.0, 0.5, 0.0]) - 0.3))
    return X, (rng.random(N) < chances).astype(int), rng.uniform(0.5, 2, N)


@pytest.fixture
def folder(tmp_path, data):
    """Two files of unequal row groups, an empty one among them, in float32."""
    X, y, weights = data
    frame = pd.DataFrame(X.astype(np.float32), columns=list("abcd"))
    frame["clicked"], frame["weight"] = np.where(y, "yes", "no"), weights
    frame[:250].to_parquet(tmp_path / "0.parquet", row_group_size=100)
    frame[250:].to_parquet(tmp_path / "1.parquet", row_group_size=300)
    frame[:0].to_parquet(tmp_path / "2.parquet")
    return tmp_path
