"""Tables beyond memory and beyond one machine: losses whose gradient is one pass on Dask.

>>> import dask.array as da, numpy as np, proxyprox as pp
>>> from proxyprox.dask import logistic_regression
>>> rng = np.random.default_rng(0)
>>> X = rng.normal(size=(2000, 5))
>>> y = rng.random(2000) < 1 / (1 + np.exp(-X @ np.arange(5)))
>>> X, y = da.from_array(X, chunks=(500, 5)), da.from_array(y, chunks=500)
>>> target = logistic_regression(X, y, l2=1e-6)
>>> proxy = target.sample_rows(500, seed=0)
>>> result = pp.minimize(pp.Problem(target, proxy))
>>> bool(np.linalg.norm(target.gradient(result.w)) < 1e-5)
True
"""

from proxyprox._util.extras import require

require("distributed", extra="dask", purpose="proxyprox.dask")
require("sklearn", extra="dask", purpose="proxyprox.dask")

from proxyprox.dask.objective import (
    PartitionedDesign,
    PartitionedGLM,
    gamma_regression,
    linear_regression,
    logistic_regression,
    poisson_regression,
    softmax_regression,
)
from proxyprox.dask.tables import read_parquet

__all__ = [
    "PartitionedDesign",
    "PartitionedGLM",
    "gamma_regression",
    "linear_regression",
    "logistic_regression",
    "poisson_regression",
    "read_parquet",
    "softmax_regression",
]
