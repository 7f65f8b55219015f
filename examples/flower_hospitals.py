"""Three hospitals and a server with public rows, by Flower: noised gradients, few rounds.

Each hospital is a process that holds its rows and a privacy budget of its own. It answers with
gradients that are clipped and noised before they leave it (``proxyprox.private.Private``), so that
its ε holds against the server, the other hospitals and readers of the wire. The server is a
process with public rows, which are the proxy and give the metric: it takes ``ProxyProx`` steps by
``ask`` and ``tell``.

    pip install flwr
    python examples/flower_hospitals.py                       # one run, all four processes
    python examples/flower_hospitals.py --fault dies          # hospital 2 dies in the third round
    python examples/flower_hospitals.py --fault late          # or answers too late
    python examples/flower_hospitals.py --compare FILE        # the table, with FedAvg and SCAFFOLD

All ports are on the loopback address. Messages are not encrypted: give ``start_server`` and
``start_client`` certificates before hospitals are on different machines. These two functions are
the shortest way to start Flower by one command; Flower recommends ``flower-superlink`` for work
that goes on for weeks.

A hospital that dies is waited for, ``PATIENCE`` seconds a round, and then left out of that round;
so is one that answers late. The release that it did not deliver is spent. While a hospital is
missing, the mean is that of the others, whose patients may differ.

What a hospital that lies can do: it may send any vector, without a clip, without noise, or of
invented rows, and nobody can tell. The server refuses vectors of another shape or with NaN,
shortens each to what an honest one may have in the metric, and draws the last point back until the
public loss has risen by no more than a good fit explains. Within that a liar can draw the model
where it wants, and undo what the others' rows have brought. (A median over hospitals would need
more than three.) A liar learns the points at which gradients are asked for. They follow from the
others' released gradients, and so tell no more about their rows than ε allows. The server can lie,
too: it chooses points, metric and clip. It cannot make a hospital spend more than ``LIMIT`` a run;
across runs a ``PrivacyBudget`` with a file would hold, which the table, of many runs on invented
rows, cannot use.

``n_nominal`` is what a hospital says in public of its number of rows: weights and means use it.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import json
import logging
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")

import numpy as np
from scipy.special import expit

import proxyprox as pp
from proxyprox.private import JamesStein, Metric, PrivacyBudget, Private, PrivateRows
from proxyprox.problems.families import Logistic

Array = Any

NOMINAL = (1500, 2500, 4000)
COLUMNS, PUBLIC, TEST, L2, DELTA = 30, 500, 20_000, 1e-3, 1e-5
# The most ε that a hospital spends on a run, whatever the server asks for.
LIMIT = 3.0
# CLIP was chosen on the draws TUNING below, among 1, 2, 4 and 8, as the rivals' settings were.
PATIENCE, REACH, CLIP = 5.0, 1.5, 3.0


def table(seed: int, hospital: int | None, rows: int) -> tuple[Array, Array]:
    """Return rows of a hospital, whose patients are of a kind of their own, or of all of them."""
    world = np.random.default_rng(seed)
    mixing = world.normal(size=(COLUMNS, COLUMNS)) / np.sqrt(COLUMNS)
    mixing *= np.geomspace(2.0, 0.2, COLUMNS)
    weights, kinds = world.normal(size=COLUMNS), 0.5 * world.normal(size=(3, COLUMNS))
    rng = np.random.default_rng((seed, 9 if hospital is None else hospital, rows))
    share = np.array(NOMINAL) / sum(NOMINAL)
    kind = rng.choice(3, rows, p=share) if hospital is None else np.full(rows, hospital)
    X = (rng.normal(size=(rows, COLUMNS)) + kinds[kind]) @ mixing
    return X, (X @ weights + rng.logistic(size=rows) > 0).astype(int)


# -- a hospital -----------------------------------------------------------------------------------


class Hospital:
    """What runs beside the rows: it answers questions, and spends its own budget."""

    def __init__(self, number: int) -> None:
        self.number, self.n_nominal = number, NOMINAL[number]

    def answer(self, arrays: list[Array], ask: dict[str, Any]) -> list[Array]:
        """Return released vectors only."""
        if ask["question"] == "begin":
            return self._begin(arrays, ask)
        if ask["question"] == "gradient":
            return [self.target.gradient(arrays[0])]
        w, control = arrays[0], arrays[1] if len(arrays) > 1 else np.zeros(COLUMNS)
        local, lr = w, ask["lr"]
        for _ in range(ask["local"]):
            step = self.target.gradient(local) - self.control + control
            local = local - lr * (self.inverse @ step)
        if len(arrays) == 1:
            return [local]
        moved = (w - local) / (ask["local"] * lr) - control
        self.control = self.control + moved
        return [local, moved]

    def _begin(self, arrays: list[Array], ask: dict[str, Any]) -> list[Array]:
        self._prepare(arrays)
        # What comes from outside is an example's: rows would be read from the hospital's files.
        X, y = table(ask["seed"], self.number, self.n_nominal)
        budget = PrivacyBudget(epsilon=LIMIT, delta=DELTA)
        self.target = Private(
            PrivateRows(X, y, Logistic((0, 1))), epsilon=ask["epsilon"], delta=DELTA,
            releases=ask["releases"], n_nominal=self.n_nominal, clip=ask["clip"], l2=L2,
            metric=self.metric, budget=budget,
        )  # fmt: skip
        return []

    def _prepare(self, arrays: list[Array]) -> None:
        self.metric, self.control = Metric(arrays[0], L2) if arrays else None, np.zeros(COLUMNS)
        # What local steps are multiplied by.
        self.inverse = np.eye(COLUMNS)
        if self.metric is not None:
            self.inverse = self.metric.matrix @ self.metric.matrix.T

    def spent(self) -> float:
        """Return ε so far."""
        return float(self.target.spent.epsilon)


class Rehearsal(Hospital):
    """A hospital for choosing the rivals' settings: the mechanism in a few lines, for speed."""

    def _begin(self, arrays: list[Array], ask: dict[str, Any]) -> list[Array]:
        self._prepare(arrays)
        self.X, self.y = table(ask["seed"], self.number, self.n_nominal)
        rows = self.X if self.metric is None else self.metric.whiten(self.X)
        self.norms, self.clip = np.linalg.norm(rows, axis=1), ask["clip"]
        self.sigma = pp.private.noise_multiplier(ask["epsilon"], DELTA, ask["releases"])
        self.target, self.rng = self, np.random.default_rng()
        return []

    def gradient(self, w: Array) -> Array:
        """Return the mean of clipped gradients, with noise."""
        slopes = expit(self.X @ w) - self.y
        slopes *= np.minimum(1.0, self.clip / np.maximum(np.abs(slopes) * self.norms, 1e-300))
        noise = self.sigma * self.clip * self.rng.normal(size=COLUMNS)
        noise = noise if self.metric is None else self.metric.unwhiten(noise)
        return (self.X.T @ slopes + noise) / self.n_nominal + L2 * w


def run_hospital(number: int, address: str, fault: str) -> None:
    """Answer by Flower until the server says goodbye."""
    from flwr.client import NumPyClient, start_client

    logging.getLogger("flwr").setLevel(logging.ERROR)
    hospital, asked = Hospital(number), itertools.count()

    class Client(NumPyClient):
        def fit(self, parameters: list[Array], config: dict[str, Any]) -> Any:
            answers, question = hospital.answer(parameters, config), next(asked)
            if question == 3 and fault == "dies":
                os._exit(1)
            if question == 3 and fault == "late":
                time.sleep(1.5 * PATIENCE)
            return answers, NOMINAL[number], {"hospital": number, "epsilon": hospital.spent()}

    start_client(
        server_address=address, client=Client().to_client(), insecure=True, max_retries=20,
        max_wait_time=60.0,
    )  # fmt: skip


# -- the server -----------------------------------------------------------------------------------


class Here:
    """The hospitals in this process."""

    def __init__(self, kind: type[Hospital] = Hospital) -> None:
        self.hospitals = [kind(number) for number in range(3)]
        self.bytes, self.epsilon = 0, {}

    def ask(self, arrays: list[Array], **config: Any) -> dict[int, list[Array]]:
        """Return the answers by number."""
        return {h.number: h.answer(arrays, config) for h in self.hospitals}


class ByFlower:
    """The hospitals behind Flower's server."""

    def __init__(self, clients: Any) -> None:
        self.clients, self.pool = clients, concurrent.futures.ThreadPoolExecutor(12)
        self.bytes, self.epsilon, self.late = 0, {}, {}

    def ask(self, arrays: list[Array], **config: Any) -> dict[int, list[Array]]:
        """Return the answers that came in time, by the hospitals' numbers."""
        from flwr.common import FitIns, ndarrays_to_parameters, parameters_to_ndarrays

        self.clients.wait_for(3, timeout=PATIENCE)
        sent = ndarrays_to_parameters(arrays)
        # A hospital that is still busy with an earlier question gets no second one.
        self.late = {cid: asked for cid, asked in self.late.items() if not asked.done()}
        asked = {
            cid: self.pool.submit(client.fit, FitIns(sent, config), None, None)
            for cid, client in self.clients.all().items()
            if cid not in self.late
        }
        self.bytes += len(asked) * sum(map(len, sent.tensors))
        done, _ = concurrent.futures.wait(asked.values(), timeout=PATIENCE)
        self.late |= {cid: future for cid, future in asked.items() if future not in done}
        answers = {}
        for future in done:
            if future.exception() is None:
                found = future.result()
                self.bytes += sum(map(len, found.parameters.tensors))
                number = int(found.metrics["hospital"])
                self.epsilon[number] = float(found.metrics["epsilon"])
                answers[number] = parameters_to_ndarrays(found.parameters)
        return answers


def mean(answers: dict[int, list[Array]], place: int = 0) -> Array:
    """Return the mean by nominal rows of the answers that are vectors of numbers."""
    good = {
        number: found[place]
        for number, found in answers.items()
        if found[place].shape == (COLUMNS,) and np.isfinite(found[place]).all()
    }
    if not good:
        raise RuntimeError("No hospital answered.")
    return np.average(list(good.values()), axis=0, weights=[NOMINAL[n] for n in good])


class Remote:
    """The hospitals' loss, whose gradients come by tell."""

    exact = False
    dim = COLUMNS

    def zeros(self) -> Array:
        """Return where parameters begin."""
        return np.zeros(COLUMNS)

    def sample(self, rng: Any) -> None:
        """Return the next batch: all rows."""

    def gradient(self, w: Array, batch: Any = None) -> Array:
        """Refuse: a round is paid for."""
        raise NotImplementedError("answers come by tell")


def proxyprox(hospitals: Any, public: Any, *, seed: int, epsilon: float, rounds: int) -> Array:
    """Return parameters after rounds of one gradient each; nothing is tuned."""
    start = pp.minimize(public).w
    hessian = public.hessian(start)
    metric = Metric(hessian, L2)
    clip = CLIP * float(np.sqrt(metric.degrees_of_freedom))
    hospitals.ask(
        [hessian], question="begin", seed=seed, epsilon=epsilon, releases=rounds, clip=clip
    )
    sigma = pp.private.noise_multiplier(epsilon, DELTA, rounds)
    noise = COLUMNS * len(NOMINAL) * (sigma * clip / sum(NOMINAL)) ** 2
    method = pp.ProxyProx(eta=1 / L2, correction=JamesStein(metric, noise))
    run = pp.Run(pp.Problem(Remote(), proxy=public), start, method=method)
    for _ in range(rounds):
        w = run.ask().points[0]
        answers = hospitals.ask([w], question="gradient")
        for found in answers.values():
            length = float(np.linalg.norm(metric.whiten(found[0] - L2 * w)))
            if length > REACH * clip:
                found[0] = L2 * w + (found[0] - L2 * w) * REACH * clip / length
        run.tell(mean(answers))
        if len(answers) < len(NOMINAL):
            print(f"a round without hospital {set(range(3)) - set(answers)}", flush=True)  # noqa: T201
    most = public.value(start) + metric.degrees_of_freedom / (2 * PUBLIC)
    shares = np.linspace(1, 0, 101)
    return next(w for w in start + shares[:, None] * (run.w - start) if public.value(w) <= most)


def averaging(
    hospitals: Any, public: Any, *, seed: int, epsilon: float, rounds: int, method: str,
    local: int, lr: float, clip: float,
) -> tuple[Array, Array]:  # fmt: skip
    """Return the last point of FedAvg or SCAFFOLD, and the mean of the later half of them."""
    w, control, points = pp.minimize(public).w, np.zeros(COLUMNS), []
    hessian, scaffold = public.hessian(w), method == "SCAFFOLD"
    metric = method == "FedAvg in the metric"
    clip *= float(np.sqrt(Metric(hessian, L2).degrees_of_freedom)) if metric else 1.0
    hospitals.ask(
        [hessian] if metric else [], question="begin", seed=seed, epsilon=epsilon,
        releases=rounds * local, clip=clip,
    )  # fmt: skip
    for _ in range(rounds):
        sent = [w, control] if scaffold else [w]
        answers = hospitals.ask(sent, question="local", local=local, lr=lr)
        w = mean(answers)
        control = control + mean(answers, 1) if scaffold else control
        points.append(w)
    return w, np.mean(points[rounds // 2 :], axis=0)


# -- the comparison -------------------------------------------------------------------------------

METHODS = ("FedAvg", "SCAFFOLD", "FedAvg in the metric")
ROUNDS, RIVAL_ROUNDS, EPSILONS = (1, 2, 3, 5, 10), (3, 10, 30), (1.0,)
GRID = {"local": (1, 5, 20), "lr": (0.1, 0.3, 1.0, 3.0, 10.0), "clip": (0.5, 1.0, 2.0, 4.0, 8.0)}
TUNING, FRESH = (100, 101), (0, 1, 2, 3, 4)


def losses(seed: int) -> tuple[Any, Any]:
    """Return the public loss, and the mean loss of test rows."""
    return (
        pp.logistic_regression(*table(seed, None, PUBLIC), l2=L2),
        pp.logistic_regression(*table(seed, None, TEST), l2=0.0),
    )


def tune() -> dict[str, Any]:
    """Return the rivals' settings of least test loss, by method, ε and rounds."""
    best: dict[str, Any] = {}
    for method, epsilon, rounds in itertools.product(METHODS, EPSILONS, RIVAL_ROUNDS):
        tried = []
        for values in itertools.product(*GRID.values()):
            setting = dict(zip(GRID, values, strict=True))
            both = []
            for seed in TUNING:
                public, test = losses(seed)
                try:
                    with np.errstate(all="ignore"):
                        points = averaging(
                            Here(Rehearsal), public, seed=seed, epsilon=epsilon, rounds=rounds,
                            method=method, **setting,
                        )  # fmt: skip
                except RuntimeError:  # it diverged
                    both.append([np.inf, np.inf])
                    break
                both.append([test.value(w) for w in points])
            last, tail = np.mean(both, axis=0)
            tried += [(last, setting | {"tail": False}), (tail, setting | {"tail": True})]
        found = min(tried, key=lambda pair: pair[0])
        best[f"{method} {epsilon:g} {rounds}"] = found[1]
        print(method, epsilon, rounds, found, flush=True)  # noqa: T201
    return best


def compare(hospitals: Any, settings: dict[str, Any], path: str) -> None:
    """Write the record: test log-loss, bytes and ε by method, ε and rounds."""
    from experiments.records import write_record

    lines = []
    cases = [("ours", e, r) for e in EPSILONS for r in ROUNDS]
    cases += list(itertools.product(METHODS, EPSILONS, RIVAL_ROUNDS))
    for method, epsilon, rounds in cases:
        setting = dict(settings.get(f"{method} {epsilon:g} {rounds}", {}))
        edge = [k for k in ("lr", "clip") if setting.get(k) in (GRID[k][0], GRID[k][-1])]
        tail = setting.pop("tail", False)
        gaps, before = [], hospitals.bytes
        for seed in FRESH:
            public, test = losses(seed)
            given = {"seed": seed, "epsilon": epsilon, "rounds": rounds}
            if method == "ours":
                w = proxyprox(hospitals, public, **given)
            else:
                w = averaging(hospitals, public, method=method, **given, **setting)[int(tail)]
            gaps.append(test.value(w))
        lines.append(
            {
                "method": method, "epsilon": epsilon, "rounds": rounds,
                "loss": float(np.mean(gaps)), "losses": gaps,
                "bytes": (hospitals.bytes - before) / len(FRESH),
                "spent": max(hospitals.epsilon.values(), default=None),
                "setting": setting | {"tail": tail}, "edge": edge,
            }
        )  # fmt: skip
        print(json.dumps(lines[-1]), flush=True)  # noqa: T201
    ends = {"public": [], "ceiling": []}
    for seed in FRESH:
        public, test = losses(seed)
        rows = [table(seed, number, n) for number, n in enumerate(NOMINAL)]
        pooled = pp.logistic_regression(*(np.concatenate(part) for part in zip(*rows, strict=True)))
        ends["public"].append(test.value(pp.minimize(public).w))
        ends["ceiling"].append(test.value(pp.minimize(pooled).w))
    data = {"lines": lines, **{name: float(np.mean(found)) for name, found in ends.items()}}
    write_record(path, data, measures=["src/proxyprox/private"])


def serve(address: str, given: argparse.Namespace, settings: dict[str, Any]) -> None:
    """Run the server's side in this process."""
    import flwr.server

    class Rounds(flwr.server.Server):
        def fit(self, num_rounds: int, timeout: float | None) -> Any:
            if not self.client_manager().wait_for(3, timeout=120):
                raise TimeoutError("Three hospitals did not come within two minutes.")
            hospitals = ByFlower(self.client_manager())
            if given.compare:
                compare(hospitals, settings, given.compare)
            else:
                public, test = losses(0)
                w = proxyprox(hospitals, public, seed=0, epsilon=given.epsilon, rounds=5)
                print(  # noqa: T201
                    f"test log-loss {test.value(w):.4f} (public rows alone "
                    f"{test.value(pp.minimize(public).w):.4f}), {hospitals.bytes} bytes, "
                    f"ε by hospital, as last heard: {dict(sorted(hospitals.epsilon.items()))}, "
                    f"δ = {DELTA:g}"
                )
            concurrent.futures.wait(hospitals.late.values(), timeout=2 * PATIENCE)
            return flwr.server.History(), 0.0

    logging.getLogger("flwr").setLevel(logging.ERROR)
    flwr.server.start_server(
        server_address=address, server=Rounds(client_manager=flwr.server.SimpleClientManager())
    )


def main() -> None:
    """Start the hospitals, be the server, and end what was started."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--fault", choices=("none", "dies", "late"), default="none")
    parser.add_argument("--compare", metavar="FILE", help="docs/results/private/flower.json")
    parser.add_argument("--hospital", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.hospital is not None:
        run_hospital(given.hospital, given.address, given.fault)
        return
    if given.compare:
        import experiments.records  # noqa: F401  (it starts the clock)
    settings = tune() if given.compare else {}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, str(Path(__file__).resolve()), "--address", address, "--hospital"]
    started = [
        subprocess.Popen([*command, str(n), "--fault", given.fault if n == 2 else "none"])
        for n in range(3)
    ]
    try:
        serve(address, given, settings)
    finally:
        for process in started:
            try:
                process.wait(timeout=2 * PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


if __name__ == "__main__":
    main()
