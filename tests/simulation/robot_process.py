"""A robot in a process of its own: requests and answers are files in a folder."""

import os
import sys
import time
from pathlib import Path

import numpy as np

from proxyprox.simulation import RolloutRequest, Trajectory


class RemoteRobot:
    """Writes a request, and waits for the answer."""

    repeatable = True

    def __init__(self, folder):
        self.folder = Path(folder)

    def __call__(self, request):
        name = f"{request.id}.{os.getpid()}"
        with open(self.folder / f"{name}.part", "wb") as file:
            np.savez(file, w=request.w, seed=request.seed)
        os.replace(self.folder / f"{name}.part", self.folder / f"{name}.ask")
        answer = self.folder / f"{name}.answer"
        for _ in range(6000):
            if answer.exists():
                return Trajectory.from_bytes(answer.read_bytes())
            time.sleep(0.005)
        raise TimeoutError("the robot did not answer")


def serve(folder):
    """Answer requests until a file says stop, and note every rollout that is made."""
    from cart_world import World  # beside this file, where it is a program

    world = World()
    for _ in range(20_000):
        if (folder / "stop").exists():
            return
        for question in folder.glob("*.ask"):
            with np.load(question) as asked:
                request = RolloutRequest(world.task, asked["w"], int(asked["seed"]))
            question.unlink()
            with (folder / "rollouts").open("a") as log:
                log.write(f"{request.id}\n")
            made = world.robot.robot(request).to_bytes()
            name = question.with_suffix("")
            name.with_name(f"{name.name}.made").write_bytes(made)
            os.replace(name.with_name(f"{name.name}.made"), name.with_name(f"{name.name}.answer"))
        time.sleep(0.005)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
