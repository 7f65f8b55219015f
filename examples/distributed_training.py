"""A network on several processes or GPUs, with checkpoints from which it resumes bit for bit.

    torchrun --standalone --nproc-per-node 2 examples/distributed_training.py --folder run
    python examples/supervise.py -- torchrun --standalone --nproc-per-node 2 \
        examples/distributed_training.py --folder run

The second command starts again from the last checkpoint whenever a process dies. ``--shard`` shards
parameters and state (FSDP2) in place of DistributedDataParallel; ``--adamw`` is ProxyAdamW in place
of ProxyProx. With GPUs the processes talk by NCCL, otherwise by gloo.

The target is 4096 rows, of which a step sees 64, shared out over the ranks; the proxy is 256 of
them, and every rank has all of it.
"""

from __future__ import annotations

import argparse
import os
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from collective_bytes import CollectiveBytes
from proxyprox.torch import EMA, ImplicitStep, Proxy, ProxyAdamW, ProxyProx

BATCH = 64


class Training:
    """Network, optimiser and schedule, and the step that they are at."""

    def __init__(self, given: argparse.Namespace, device: torch.device) -> None:
        self.k, self.device = 0, device
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        draw = torch.Generator().manual_seed(0)
        self.x = torch.randn(4096, 32, generator=draw)
        self.y = (self.x[:, :4].prod(1, keepdim=True) + self.x.sum(1, keepdim=True) / 4).tanh()
        torch.manual_seed(0)
        self.network = torch.nn.Sequential(
            torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)
        ).to(device)
        self.model: Any = self.network
        if given.shard:
            for module in (self.network[0], self.network[2], self.network):
                fully_shard(module)
        else:
            self.model = DistributedDataParallel(self.network)
        # A generator of its own: the first rank's is given to all, and saved with the optimiser.
        rows = TensorDataset(self.x[:256], self.y[:256])
        shuffled = torch.Generator().manual_seed(1)
        loader = DataLoader(rows, 32, shuffle=True, generator=shuffled)
        proxy = Proxy(loader, self.loss, across_ranks="shared" if given.share else "replicated")
        self.optimizer: Any = (
            ProxyAdamW(self.network.parameters(), 3e-3, proxy=proxy, model=self.model)
            if given.adamw
            else ProxyProx(
                self.network.parameters(), 1.0, proxy=proxy, correction=EMA(0.3),
                inner=ImplicitStep(0.05), stop=8, model=self.model,
            )
        )  # fmt: skip
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, given.steps)

    def arrange_buckets(self) -> None:
        """Take a pass for nothing: after its first, DistributedDataParallel rearranges its buckets.

        Where a gradient lies in them decides in which order three or more ranks are summed. A run
        that resumes would take its first step in another order than the run that it continues.
        """
        self.loss((self.x[:1], self.y[:1]), self.model).backward()
        self.optimizer.zero_grad()

    def loss(self, batch: Any, model: Any = None) -> Any:
        """Return a batch's mean loss: of the network itself, or of what wraps it."""
        x, y = (part.to(self.device) for part in batch)
        return mse_loss((model or self.network)(x), y)

    def step(self) -> Any:
        """Take one outer step with this rank's rows of a batch that depends on k alone."""
        draw = torch.Generator().manual_seed(self.k)
        rows = torch.randint(len(self.x), (BATCH,), generator=draw).chunk(self.ranks)[self.rank]
        self.optimizer.zero_grad()
        loss = self.loss((self.x[rows], self.y[rows]), self.model)
        loss.backward()  # the one all-reduce under DistributedDataParallel
        self.optimizer.step()
        self.schedule.step()
        self.k += 1
        return loss.detach()

    def state(self) -> dict[str, Any]:
        """Return all that the rest of the run depends on."""
        model, optimizer = get_state_dict(self.network, self.optimizer)
        saved = {"model": model, "optimizer": optimizer, "schedule": self.schedule.state_dict()}
        return {**saved, "k": self.k}

    def save(self, folder: Path) -> None:
        """Write a checkpoint beside the last one, and name it when it is whole."""
        name = f"step-{self.k:08}"
        dcp.save(self.state(), checkpoint_id=folder / f"{name}.part")
        if self.rank == 0:
            os.rename(folder / f"{name}.part", folder / name)
            for old in checkpoints(folder)[:-2]:
                shutil.rmtree(old)

    def load(self, path: Path) -> None:
        """Resume."""
        state = self.state()
        dcp.load(state, checkpoint_id=path)
        set_state_dict(
            self.network, self.optimizer,
            model_state_dict=state["model"], optim_state_dict=state["optimizer"],
        )  # fmt: skip
        self.schedule.load_state_dict(state["schedule"])
        self.k = state["k"]


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints that are whole, the newest last."""
    return sorted(path for path in folder.glob("step-*") if not path.suffix)


def report(line: str) -> None:
    """Print a line at once, whoever reads it."""
    print(line, flush=True)  # noqa: T201


def main() -> None:
    """Train from the last checkpoint to the end."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="for checkpoints and weights.pt")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=20, help="steps between two checkpoints")
    parser.add_argument("--shard", action="store_true", help="FSDP2")
    parser.add_argument("--share", action="store_true", help="share the proxy's batches out")
    parser.add_argument("--adamw", action="store_true", help="ProxyAdamW")
    given = parser.parse_args()
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    training = Training(given, device)
    given.folder.mkdir(parents=True, exist_ok=True)
    if training.rank == 0:
        for part in given.folder.glob("*.part"):
            shutil.rmtree(part)
    dist.barrier()
    training.arrange_buckets()
    found = checkpoints(given.folder)
    if found:
        training.load(found[-1])
    if training.rank == 0:
        report(f"{training.ranks} ranks on {device.type}, from step {training.k}")
    while training.k < given.steps:
        reported = (training.k + 1) % given.every == 0
        counted = CollectiveBytes()
        with counted if reported else nullcontext():  # to count slows a step down
            loss = training.step()
        if reported:
            training.save(given.folder)
            if training.rank == 0:
                report(f"step {training.k}, loss {loss:.4f}, {counted.total} bytes")
    whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights = get_model_state_dict(training.network, options=whole)
    if training.rank == 0:
        torch.save(weights, given.folder / "weights.part")
        os.rename(given.folder / "weights.part", given.folder / "weights.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
