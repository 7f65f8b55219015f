"""What test_distributed.py runs on two ranks: many checks in one launch, reported as JSON."""

import functools
import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from proxyprox.torch import EMA, ImplicitStep, Plain, Proxy, ProxyAdamW, ProxyProx
from proxyprox.torch.distributed import full_value

sys.path.append(str(Path(__file__).parents[2] / "examples"))
from collective_bytes import CollectiveBytes

ADAMW = functools.partial(torch.optim.AdamW, lr=0.01, weight_decay=0)
SETTINGS = {
    "plain": {"correction": Plain()},
    "ema, residual": {"correction": EMA(0.3), "measure_residual": True},
    "inner adamw": {"correction": Plain(), "inner": ADAMW},
    "several": {"way": "interleaved"},
    "corrected": {"way": "corrected"},
}
# Every setting in both wrappers or in one, every wrapper with both ways to share batches.
CASES = [
    ("plain", "ddp", "shared"), ("plain", "fsdp", "replicated"),
    ("ema, residual", "ddp", "replicated"), ("ema, residual", "fsdp", "replicated"),
    ("plain", "fsdp", "shared"),
    ("inner adamw", "fsdp", "replicated"), ("several", "ddp", "replicated"),
    ("corrected", "fsdp", "shared"), ("corrected", "ddp", "shared"),
]  # fmt: skip
GLOBAL_BATCH = 12
# Outer steps before a checkpoint, and after it.
FIRST, REST = 2, 1


def data():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(96, 5, generator=generator, dtype=torch.float64)
    return x, x.sum(1, keepdim=True).tanh()


def make_network():
    torch.manual_seed(0)
    layers = torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 1)
    return torch.nn.Sequential(*layers).double()


class Training:
    """A network, its wrapper ("alone", "ddp", "fsdp") and an optimiser; batches by step."""

    def __init__(self, setting, kind, across_ranks="replicated", rank=0, ranks=1, **options):
        self.rank, self.ranks, self.k = rank, ranks, 0
        self.network = self.called = make_network()
        self.network.insert(2, torch.nn.Dropout(options.pop("dropout", 0.0)))
        if kind == "ddp":
            self.called = DistributedDataParallel(self.network, gradient_as_bucket_view=True)
        if kind == "fsdp":
            for layer in (self.network[0], self.network[3], self.network):
                fully_shard(layer)
        self.cheap = self.called if options.pop("through_ddp", False) else self.network
        self.x, self.y = data()
        # A last batch of one row: fewer than ranks. Ranks have other seeds, which are made equal.
        shuffled = torch.Generator().manual_seed(3 + rank)
        rows = TensorDataset(self.x[:25], self.y[:25])
        loader = options.pop("loader", DataLoader(rows, 12, shuffle=True, generator=shuffled))
        proxy = Proxy(loader, self.proxy_loss, across_ranks=across_ranks)
        if setting == "several":
            fixed = [(self.x[30:42], self.y[30:42])]
            proxy = [Proxy(fixed, self.proxy_loss, across_ranks=across_ranks), proxy]
        given = {**SETTINGS[setting], **options}
        if "way" in given:
            given = {"proxy_steps": 3, "model": self.called, **given}
            self.optimizer = ProxyAdamW(self.network.parameters(), 0.01, proxy=proxy, **given)
        else:
            given = {"stop": 3, "inner": ImplicitStep(0.1), "model": self.called, **given}
            self.optimizer = ProxyProx(self.network.parameters(), 1.0, proxy=proxy, **given)

        if kind == "ddp":
            # After its first pass it rearranges its buckets, and with them the order of sums.
            self.called(self.x[:1]).sum().backward()
            self.optimizer.zero_grad()

    def proxy_loss(self, batch):
        return mse_loss(self.cheap(batch[0]), batch[1])

    def step(self):
        share = GLOBAL_BATCH // self.ranks
        drawn = torch.Generator().manual_seed(self.k)
        rows = torch.randint(96, (GLOBAL_BATCH,), generator=drawn)
        rows = rows[self.rank * share : (self.rank + 1) * share]

        def closure():
            self.optimizer.zero_grad()
            loss = mse_loss(self.called(self.x[rows]), self.y[rows])
            loss.backward()
            return loss

        closure()
        self.optimizer.step()
        self.k += 1

    def train(self, steps):
        for _ in range(steps):
            self.step()
        return self

    def weights(self):
        return torch.cat([full_value(p).detach().reshape(-1) for p in self.network.parameters()])

    def save(self, folder):
        model, optimizer = get_state_dict(self.network, self.optimizer)
        dcp.save({"model": model, "optimizer": optimizer}, checkpoint_id=folder)

    def load(self, folder, k):
        model, optimizer = get_state_dict(self.network, self.optimizer)
        state = {"model": model, "optimizer": optimizer}
        dcp.load(state, checkpoint_id=folder)
        set_state_dict(
            self.network, self.optimizer,
            model_state_dict=state["model"], optim_state_dict=state["optimizer"],
        )  # fmt: skip
        self.k = k
        return self


def spread(tensor):
    """Return whether a tensor is the same, bit for bit, on all ranks."""
    every = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(every, tensor)
    return all(torch.equal(other, tensor) for other in every)


def name_of(case):
    return "-".join(case)


def check_case(case, make, folder):
    """Train, save on the way, resume; return what was found."""
    whole = make(*case)
    # A look before the first step must not change the run.
    flat = StateDictOptions(flatten_optimizer_state_dict=True)
    get_state_dict(whole.network, whole.optimizer, options=flat)
    whole.train(FIRST)
    place = folder / name_of(case)
    whole.save(place)
    whole.train(REST)
    resumed = make(*case).load(place, FIRST).train(REST)
    weights = whole.weights()
    ledgers = [t.optimizer.ledger.as_dict() for t in (whole, resumed)]
    for ledger in ledgers:
        ledger.pop("seconds")
    return {
        "weights": weights.tolist(),
        "equal on all ranks": spread(weights),
        "resumed equal": torch.equal(weights, resumed.weights()) and ledgers[0] == ledgers[1],
    }


def count_bytes(kind, across_ranks, make, **options):
    training = make("plain", kind, across_ranks, **options).train(1)
    with CollectiveBytes() as counted:
        training.step()
    local = [p.to_local() if kind == "fsdp" else p for p in training.network.parameters()]
    return {"total": counted.total, "by": dict(counted.by_collective), "held": held_bytes(local)}


def held_bytes(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def dropout(make, rank):
    """Return whether masks, drawn from other seeds on other ranks, are the same in proxy passes."""
    training = make("plain", "ddp", dropout=0.3, probe=False)
    torch.manual_seed(rank)
    return spread(training.train(2).weights())


def left_alone(make_optimizer):
    """Return whether a sharded layer that only the proxy depends on stays as it was."""
    torch.manual_seed(0)
    used, unused = (torch.nn.Linear(5, 1).double() for _ in range(2))
    for layer in (used, unused):
        fully_shard(layer)
    x, y = data()

    def loss(batch):
        return mse_loss(used(batch[0]) + unused(batch[0]), batch[1])

    cheap, params = Proxy([(x[:8], y[:8])], loss), [*used.parameters(), *unused.parameters()]
    optimizer = make_optimizer(params, proxy=cheap)
    before = [full_value(layer.weight).clone() for layer in (used, unused)]
    mse_loss(used(x), y).backward()
    optimizer.step()
    after = [full_value(layer.weight) for layer in (used, unused)]
    moved = [not torch.equal(one, other) for one, other in zip(before, after, strict=True)]
    return moved == [True, False] and unused.weight.grad is None


def messages(make, rank):
    """Return what is said of ranks that have other rows, another number of batches, no DDP."""
    x, y = data()
    found = {}
    for name, kind, options in (
        ("other rows", "ddp", {"loader": [(x[rank : rank + 8], y[rank : rank + 8])]}),
        ("other length", "fsdp", {"loader": [(x[:8], y[:8])] * (1 + rank)}),
        ("without ddp", "alone", {}),
    ):
        try:
            make("plain", kind, **options).train(1)
        except (RuntimeError, ValueError) as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


def main(folder):
    # A fork shares the imports, which take most of the time, and nothing else is done before it.
    rank, ranks = int(os.fork() == 0), 2
    store = f"file://{folder / 'store'}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    torch.set_num_threads(1)
    make = functools.partial(Training, rank=rank, ranks=ranks)
    report = {name_of(case): check_case(case, make, folder) for case in CASES}
    report["bytes"] = {
        f"{kind}-{mode}": count_bytes(kind, mode, make)
        for kind in ("ddp", "fsdp")
        for mode in ("replicated", "shared")
    }
    report["bytes"]["through ddp"] = count_bytes("ddp", "replicated", make, through_ddp=True)
    report["errors"] = messages(make, rank)
    proxyprox = functools.partial(ProxyProx, lr=1.0, inner=ADAMW, stop=2)
    report["left alone"] = [left_alone(kind) for kind in (proxyprox, ProxyAdamW)]
    report["same masks"] = dropout(make, rank)
    # Ranks of their own never wait for another, however many steps they take.
    alone = make("plain", "alone", "independent").train(1 + rank)
    report["independent"] = alone.optimizer.ledger.target_gradients
    if rank == 0:
        (folder / "report.json").write_text(json.dumps(report))
    dist.barrier()
    dist.destroy_process_group()
    assert rank or os.wait()[1] == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
