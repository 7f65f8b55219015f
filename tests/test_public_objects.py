"""Every public class and function: it refuses nonsense by name, and its instances are pickled.

The table holds arguments that are right. The sweep replaces one of them at a time by nonsense; what
is accepted must be listed here, or mean something by its kind.
"""

from __future__ import annotations

import inspect
import pickle
import warnings

import numpy as np
import pytest

import proxyprox as pp
from proxyprox import private, problems, simulation, stepsizes, theory
from proxyprox import sklearn as estimators
from proxyprox.problems import families

X = np.arange(12.0).reshape(6, 2) / 10
Y = np.array([0, 1, 0, 1, 1, 0])


# Functions that are found by their names in another process.
schedule, identity, value = float, np.asarray, np.linalg.norm


def cost(states, actions, t):
    return (states**2).sum(-1)


def features(observations, t):
    return observations


def move(states, actions):
    return states + actions


def act(w, observations, t):
    return observations * w[..., :1]


def release(present):
    return float(present)


def quadratic():
    return pp.Quadratic(np.diag([1.0, 2.0]), b=np.ones(2))


def task():
    return simulation.Task(simulation.LinearPolicy(features, 1, 1), 5, cost=cost)


def system():
    return simulation.FunctionSystem(move, 1, 1)


def robot():
    return simulation.SimulatedRobot(system(), np.ones((3, 1)))


def rows():
    return private.PrivateRows(X, Y, families.Logistic((0, 1)), bound=2.0)


def core():
    problem, half = pp.Problem(quadratic(), quadratic()), {"eta": 0.5}
    return {
        **{
            kind: {}
            for kind in (
                pp.averaging.Adaptive, pp.averaging.Last, pp.averaging.Uniform,
                pp.corrections.Plain, pp.corrections.Mean, pp.inner.Auto, pp.inner.ClosedForm,
                pp.stepsizes.AutoStep, pp.stopping.SDane, pp.problems.Zero, pp.LBFGS,
                pp.inner.Newton, pp.inner.NewtonCG,
                pp.inner.ProximalGradient, pp.inner.QuasiNewton, pp.inner.GradientDescent,
                pp.ProxyBFGS, pp.methods.ManifoldMapping, pp.DANE,
                pp.methods.ValueMapping, pp.SGD, pp.ProxyProx,
                pp.stopping.NonConvex,
                families.Poisson, families.Gamma, families.Linear,
            )
        },
        pp.corrections.EMA: {"a": 0.5},
        pp.corrections.Storm: {"a": 0.5},
        pp.averaging.Geometric: {"mu": 1.0},
        pp.Adam: half,
        pp.stopping.Convex: {"steps": 10},
        pp.stopping.RandomSteps: {"p": 0.1},
        pp.stopping.Relative: {"factor": 0.1},
        pp.stopping.Residual: {"tol": 0.1},
        pp.stopping.Steps: {"steps": 5},
        pp.stopping.StronglyConvex: {"mu": 1.0},
        pp.L1: {"alpha": 0.1},
        pp.Box: {},
        pp.Budget: {"target_gradients": 5},
        stepsizes.Constant: {"value": 1.0},
        stepsizes.Schedule: {"function": schedule},
        pp.Quadratic: {"P": np.eye(2), "b": np.ones(2)},
        pp.GLM: {"X": X, "y": Y, "family": families.Poisson()},
        pp.FunctionObjective: {"gradient": identity},
        pp.FunctionProxy: {"value": value, "gradient": identity},
        pp.ValueObjective: {"function": value},
        pp.ValueProxy: {"function": value},
        pp.LeastSquares: {"residuals": identity},
        pp.Outputs: {"model": identity},
        pp.Problem: {"objective": quadratic(), "proxy": quadratic()},
        pp.Run: {"problem": problem},
        problems.MixedProxy: {"proxies": [quadratic(), quadratic()], "weights": [0.5, 0.5]},
        families.Logistic: {"classes": (0, 1)},
        families.Softmax: {"classes": (0, 1, 2)},
        pp.problems.regularized: {"problem": problem, "mu": 1.0, "centre": np.zeros(2)},
        pp.linear_regression: {"X": X, "y": Y},
        pp.logistic_regression: {"X": X, "y": Y},
        pp.softmax_regression: {"X": X, "y": [0, 1, 2, 0, 1, 2]},
        pp.poisson_regression: {"X": X, "y": Y},
        pp.gamma_regression: {"X": X, "y": Y + 1},
        pp.minimize: {"problem": problem, "steps": 1},
        pp.audit: {"problem": problem},
        estimators.LabelBudget: {
            "estimator": estimators.ProxyLogisticRegression(), "X": X, "budget": 4,
        },
    }  # fmt: skip


def of_theory():
    """Return the theory's functions; their arguments are numbers, by the same names."""
    numbers = {
        "eta": 0.05, "steps": 50, "B": 1.0, "sigma": 0.5, "delta": 1.0, "mu": 0.1, "H": 8.0,
        "epsilon": 0.5, "p": 0.25, "gamma": 0.05, "rho": 0.5, "G": 0.1, "initial_gap": 1.0,
        "delta_B": 0.25, "samples": 10, "table": 1.0,
    }  # fmt: skip
    found = {}
    for name in theory.__all__:
        function = getattr(theory, name)
        if not isinstance(function, type):
            given = inspect.signature(function).parameters.values()
            found[function] = {
                p.name: numbers[p.name] for p in given if p.default in (p.empty, None)
            }
    return found


def of_applications():
    private_task, simulator = {"epsilon": 1.0, "delta": 1e-5}, (task(), system(), np.ones((3, 1)))
    return {
        private.Metric: {"hessian": np.eye(2), "damping": 0.1},
        private.JamesStein: {"metric": private.Metric(np.eye(2), 0.1), "noise": 0.1},
        private.PrivateRows: {"X": X, "y": Y, "family": families.Logistic((0, 1))},
        private.PrivacyBudget: private_task,
        private.Private: {
            "objective": rows(), **private_task, "releases": 3, "n_nominal": 6, "clip": 1.0,
        },
        private.attack: {"release": release, "delta": 1e-5, "runs": 40},
        simulation.FunctionSystem: {"function": move, "states": 1, "actions": 1},
        simulation.GuardedProxyProx: {"eta": 0.5},
        simulation.Limits: {},
        simulation.LinearPolicy: {"features": features, "size": 1, "actions": 1},
        simulation.Parameter: {"value": 1.0, "lower": 0.5, "upper": 2.0},
        simulation.Policy: {"function": act, "dim": 1, "actions": 1},
        simulation.RolloutBudget: {},
        simulation.Task: {"policy": task().policy, "horizon": 5, "cost": cost},
        simulation.SimulatedRobot: {"system": system(), "resets": np.ones((3, 1))},
        simulation.SimulatorProxy: dict(zip(("task", "system", "resets"), simulator, strict=True)),
        simulation.RolloutObjective: {
            "task": task(), "robot": robot(),
            "estimator": simulation.TrajectoryAdjoint(simulation.SimulatorProxy(*simulator)),
        },
        simulation.TrajectoryAdjoint: {"simulator": simulation.SimulatorProxy(*simulator)},
        simulation.RolloutRequest: {"task": task(), "w": np.ones(1), "seed": 0},
    }  # fmt: skip


TABLES = {"core": core, "theory": of_theory, "applications": of_applications}

NONSENSE = {
    "None": None, "complex": 1j, "type": type, "text": "nonsense", "NaN": float("nan"),
    "inf": float("inf"), "-1": -1, "0": 0, "object": object(), "set": set(), "bytes": b"x",
    "huge": 10**400, "3-D": np.ones((2, 2, 2)), "list": ["a"], "dict": {}, "True": True,
}  # fmt: skip
# The arguments that may be zero.
ZERO = {
    "sigma", "delta", "mu", "G", "rho", "initial_gap", "delta_B", "sample", "worth", "beta",
    "beta1", "beta2", "target_gradient_norm", "alpha", "lower", "upper", "noise", "l2", "rng",
    "strong_convexity", "tol", "atol", "sampling", "expected", "moments", "count", "confidence",
    "tolerance", "worst", "resets", "delay", "seed",
}  # fmt: skip
# Arguments that take more than their kind: files by name, tables of any sort, empty collections.
TAKEN = {
    "minimize.checkpoint": {"text"},
    "DANE.eta": {"inf"},
    "Box.lower": {"-1"},
    "Box.upper": {"-1", "inf"},
    "guarantee.B": {"0"},
    "Constant.value": {"NaN", "inf"},  # a method without η
    "softmax_regression.y": {"None"},  # then classes are needed, which the error names
    "Parameter.lower": {"-1"},
    "Parameter.upper": {"inf", "huge"},
    "SimulatedRobot.resets": {"-1"},
    "SimulatorProxy.resets": {"-1"},
    "LabelBudget.path": {"text"},
    "Budget.proxies": {"dict"},
    "LabelBudget.about": {"dict"},
    "PrivacyBudget.path": {"text"},
    "RolloutObjective.journal": {"text"},
    "RolloutObjective.robot": {"None"},
    "Private.name": {"text"},
    "FunctionSystem.parameters": {"dict"},
    "audit.others": {"set", "dict"},
    "ProxyProx.rng": {"None"},
    "PrivateRows.X": {"list"},  # a row of one entry that is no number
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.filterwarnings("ignore")
def test_nonsense_is_refused_by_the_name_of_the_argument(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wrong = []
    for called, right in TABLES[table]().items():
        if called in (families.Logistic, families.Softmax):
            continue  # built by the regressions, which check their classes
        for parameter in inspect.signature(called).parameters.values():
            name, where = parameter.name, f"{called.__name__}.{parameter.name}"
            optional = parameter.default is None or "None" in str(parameter.annotation)
            # Whether True is right tests of the argument say.
            allowed = {"True"} | TAKEN.get(where, set()) | ({"None"} if optional else set())
            allowed |= {"0"} if name in ZERO else set()
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            for label, given in NONSENSE.items():
                try:
                    called(**{**right, name: given})
                except Exception as error:
                    named = isinstance(error, (TypeError, ValueError)) and name in str(error)
                    if not named and label not in TAKEN.get(where, ()):
                        wrong.append(f"{where}={label}: {type(error).__name__}: {error}"[:150])
                else:
                    if label not in allowed:
                        wrong.append(f"{where}={label} is accepted")
    assert not wrong, "\n".join(wrong)


def results():
    """Return what runs, audits and estimators answer with, and what they were run on."""
    exact, glm = quadratic(), pp.logistic_regression(X, Y, l2=0.1, batch_size=2)
    problem = pp.Problem(exact, quadratic())
    run = pp.Run(problem)
    query = run.ask()
    run.tell([exact.gradient(w) for w in query.points])
    audited = pp.audit(pp.Problem(glm, glm.label_free()), rng=0)
    result = pp.minimize(problem, method=pp.ProxyProx(0.5), steps=5)
    rng = np.random.default_rng(0)
    table = rng.normal(size=(60, 3))
    labels = np.where(np.arange(60) < 30, (table[:, 0] + rng.normal(size=60) > 0) * 1, -1)
    model = estimators.ProxyLogisticRegression(unlabelled=-1).fit(table, labels)
    return [
        result, result.trace, run, query, audited, pp.plan(audited, epsilon=0.1), pp.audit(problem),
        pp.minimize(problem), pp.minimize(problem, steps=5, safeguard=True), exact, glm,
        glm.label_free(), glm.subsample(3, rng=0), pp.minimize(pp.Problem(value, value), X[1]),
        pp.Problem(quadratic(), quadratic(), bounds=(0, 1), scales=[1.0, 2.0]), model,
        model.confidence_interval(), pp.stopping.Relative(0.1) | pp.stopping.Steps(5),
        pp.stopping.Relative(0.1) & pp.stopping.Steps(5),
        pp.OracleError("text", result), pp.inner.NonFiniteError("text", 3),
        pp.CheckpointError("text"),
    ]  # fmt: skip


# Not the same thing in two processes: named errors say what to do.
OF_ONE_PROCESS = (private.PrivacyBudget, private.Private, simulation.RolloutObjective)


@pytest.mark.parametrize("table", [*TABLES, "results"])
def test_instances_are_pickled(table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = results() if table == "results" else [
            called(**right) for called, right in TABLES[table]().items()
            if isinstance(called, type) and called not in OF_ONE_PROCESS
        ]  # fmt: skip
    for one in made:
        other = pickle.loads(pickle.dumps(one))
        assert type(other) is type(one)
        if hasattr(one, "fingerprint"):
            assert other.fingerprint() == one.fingerprint()


# Protocols, base classes, answers, errors, files, and what needs a fit or an environment.
ELSEWHERE = {
    "Answers", "Checkpoint", "Ledger", "Method", "Objective", "OuterStep", "Penalty", "Proxy",
    "Query", "Request", "Result", "Status", "Step", "StepRecord", "StepSize", "Subproblem", "Trace",
    "plan", "Attack", "Guarantee", "PrivacyPlan", "gaussian_epsilon", "noise_multiplier",
    "sampled_epsilon", "Evaluation", "Identification", "RolloutJournal", "RolloutLedger", "System",
    "Trajectory", "Tuned", "tune", "GymnasiumRobot", "gymnasium_resets", "MuJoCoSystem",
    "Averaging", "Correction", "Criterion", "Progress", "AllOf", "AnyOf", "InnerResult",
    "InnerSolver", "State", "FAMILIES", "Batch", "CanonicalFamily", "Family", "LogLink",
    "Facts", "Uncertainty", "uncertainty", "weighted", "huber", "counts", "Observation",
    "Restart", "as_step_size", "Defaults", "Parametric",
}  # fmt: skip
PARTS = (
    pp, pp.averaging, pp.corrections, pp.inner, pp.methods, pp.oracle, pp.penalties, pp.result,
    pp.stopping, problems, stepsizes, private, simulation,
)  # fmt: skip


def test_no_public_name_is_forgotten():
    listed = {called.__name__ for made in (core, of_applications) for called in made()}
    for module in PARTS:
        for name in set(module.__all__) - listed - ELSEWHERE:
            item = getattr(module, name)
            fits = name.startswith("Private")
            assert fits or (isinstance(item, type) and issubclass(item, Exception)), name
