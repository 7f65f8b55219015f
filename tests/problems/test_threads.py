"""Threads may share a loss: what one of them stores is never another's answer."""

import sys
import threading

import numpy as np

import proxyprox as pp


def logistic():
    rng = np.random.default_rng(0)
    return pp.logistic_regression(rng.normal(size=(20, 3)), rng.integers(2, size=20), l2=0.1)


def test_many_threads_get_what_one_gets():
    glm, quadratic = logistic(), pp.Quadratic(np.diag([1.0, 2.0, 3.0]))
    points, v = np.random.default_rng(1).normal(scale=3, size=(4, 3)), np.ones(3)
    expected = [(logistic().hvp(w, v), quadratic.solve_shifted(v, 1 + w[0] ** 2)) for w in points]
    wrong = []

    def work(number):
        w = points[number]
        for _ in range(800):
            found = glm.hvp(w, v), quadratic.solve_shifted(v, 1 + w[0] ** 2)
            if not all(map(np.array_equal, found, expected[number])):
                wrong.append(number)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong
