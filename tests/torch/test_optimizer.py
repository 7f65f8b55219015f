"""The optimiser's mathematics and manners on small problems."""

from __future__ import annotations

import copy
import functools
import math
import pickle

import pytest
import torch

import proxyprox as pp
from proxyprox.torch import EMA, ImplicitStep, Plain, Proxy, ProxyProx, Storm

SGD = functools.partial(torch.optim.SGD, lr=0.05)


def make(toy, **options):
    options = {"lr": 0.3, "proxy": toy.proxy, "inner": ImplicitStep(0.05), "stop": 5, **options}
    return ProxyProx(toy.params, **options)


# -- against SGD and closed forms ------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_without_a_proxy_it_is_sgd_bit_for_bit(make_toy, dtype, weight_decay):
    ours, theirs = make_toy(dtype=dtype), make_toy(dtype=dtype)
    a = ours.train(ProxyProx(ours.params, 0.1, proxy=None, weight_decay=weight_decay), 7)
    b = theirs.train(torch.optim.SGD(theirs.params, lr=0.1, weight_decay=weight_decay), 7)
    assert torch.equal(a, b)


def test_decoupled_decay_without_a_proxy_is_that_of_adamw_style(make_toy):
    a, b = make_toy(), make_toy()
    found = a.train(
        ProxyProx(a.params, 0.1, proxy=None, weight_decay=0.2, decoupled_weight_decay=True), 1
    )
    b.loss(slice(0, 4)).backward()
    expected = [p * (1 - 0.1 * 0.2) - 0.1 * p.grad for p in b.params]
    torch.testing.assert_close(found, torch.cat([e.detach().reshape(-1) for e in expected]))


def test_the_target_as_proxy_solves_the_proximal_point_step(toy):
    start = toy.flat()
    optimizer = make(toy, proxy=toy.loss, stop=4000, inner=ImplicitStep(0.1))
    optimizer.zero_grad()
    toy.loss().backward()
    optimizer.step()
    # At the proximal point, ∇L(w) + (w − w_k)/η = 0.
    toy.model.zero_grad()
    toy.loss().backward()
    gradient = torch.cat([p.grad.reshape(-1) for p in toy.params])
    torch.testing.assert_close(gradient, (start - toy.flat()) / 0.3, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("lr", [1e-12, 1e-3, 1e3, 1e12, math.inf])
def test_the_implicit_step_is_stable_for_every_lr(make_toy, lr):
    toy = make_toy(dtype=torch.float32)
    found = toy.train(make(toy, lr=lr, correction=EMA(0.2)), 40)
    assert torch.isfinite(found).all()
    assert lr < 1 or toy.loss().item() < 0.1


def test_explicit_and_implicit_agree_where_both_are_stable(make_toy):
    a, b = make_toy(), make_toy()
    gamma, eta = 0.05, 0.3
    equal = 1 / (1 / gamma + 1 / eta)
    x = a.train(make(a, inner=ImplicitStep(gamma), correction=EMA(0.2)), 6)
    y = b.train(make(b, inner=functools.partial(torch.optim.SGD, lr=equal), correction=EMA(0.2)), 6)
    torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-12)


def test_a_weight_of_zero_leaves_the_target_out(make_toy):
    """The bias that the documentation warns of, at its extreme."""
    toy = make_toy()
    toy.y[8:] += 5  # the proxy's rows know nothing of this
    toy.train(make(toy, correction_weight=0, stop=50, lr=math.inf, inner=ImplicitStep(0.3)), 60)
    assert toy.proxy().item() < 1e-4 < toy.loss().item()


def test_a_weight_below_one_ends_between_the_two_losses(make_toy):
    ends = []
    for weight in (1.0, 0.5):
        toy = make_toy()
        toy.y[8:] += 5
        optimizer = make(toy, correction_weight=weight, stop=30, lr=0.3, inner=ImplicitStep(0.1))
        for _ in range(150):
            optimizer.zero_grad()
            toy.loss().backward()
            optimizer.step()
        toy.model.zero_grad()
        (toy.loss() * weight + toy.proxy() * (1 - weight)).backward()
        ends.append(max(float(p.grad.abs().max()) for p in toy.params))
    assert max(ends) < 1e-6


# -- anchors, inner solvers, stopping --------------------------------------------------------


@pytest.mark.parametrize("correction", [Plain(), EMA(0.3)])
def test_paired_anchors_equal_full_ones_for_a_single_batch(make_toy, correction):
    """With one batch that is the whole proxy, the pairs cancel exactly what the pass does."""
    paths = []
    for anchor in ("full", "paired"):
        toy = make_toy()
        proxy = Proxy(toy.batches(size=8), toy.batch_loss)
        paths.append(toy.train(make(toy, proxy=proxy, anchor=anchor, correction=correction), 5))
    torch.testing.assert_close(*paths, rtol=1e-10, atol=1e-12)


def test_paired_anchors_with_a_weight_equal_full_ones_for_a_single_batch(make_toy):
    paths = []
    for anchor in ("full", "paired"):
        toy = make_toy()
        proxy = Proxy(toy.batches(size=8), toy.batch_loss)
        paths.append(
            toy.train(make(toy, proxy=proxy, anchor=anchor, correction_weight=0.6, inner=SGD), 5)
        )
    torch.testing.assert_close(*paths, rtol=1e-10, atol=1e-12)


def test_paired_anchors_converge_and_are_counted(make_toy):
    toy = make_toy()
    proxy = Proxy(toy.batches(), toy.batch_loss)
    optimizer = make(toy, proxy=proxy, anchor="paired", lr=0.2)
    for _ in range(200):
        optimizer.zero_grad()
        toy.loss().backward()
        optimizer.step()
    assert toy.loss().item() < 1e-6
    assert optimizer.ledger.proxy_gradients == 0
    assert optimizer.ledger.proxy_sampled_gradients == 200 * 2 * 5


def test_a_loader_with_a_full_pass_is_counted(make_toy):
    toy = make_toy()
    optimizer = make(toy, proxy=Proxy(toy.batches(), toy.batch_loss))
    toy.train(optimizer, 3)
    ledger = optimizer.ledger
    assert (ledger.target_gradients, ledger.proxy_gradients) == (3, 3)
    assert ledger.proxy_sampled_gradients == 15
    assert ledger.seconds > 0


@pytest.mark.parametrize(
    "factory",
    [
        functools.partial(torch.optim.SGD, lr=0.05, momentum=0.9, nesterov=True),
        functools.partial(torch.optim.Adam, lr=0.05),
        functools.partial(torch.optim.AdamW, lr=0.05, foreach=False),
        functools.partial(torch.optim.RMSprop, lr=0.02),
        functools.partial(torch.optim.Adagrad, lr=0.1),
    ],
    ids=["nesterov", "adam", "adamw", "rmsprop", "adagrad"],
)
@pytest.mark.parametrize("keep", [False, True])
def test_any_torch_optimiser_takes_the_inner_steps(make_toy, factory, keep):
    toy = make_toy()
    before = toy.loss().item()
    toy.train(make(toy, inner=factory, keep_inner_state=keep, correction=EMA(0.2), stop=8), 40)
    assert toy.loss().item() < before / 3


def test_inner_schedules_follow_the_outer_step(toy):
    seen = []
    optimizer = make(
        toy,
        inner=ImplicitStep(lambda k: seen.append(k) or 0.1 / (k + 1)),
        stop=lambda k: k + 1,
    )
    toy.train(optimizer, 4)
    assert seen == [0, 1, 2, 3]
    assert optimizer.record.inner_steps == 4


def test_random_numbers_of_inner_steps(make_toy):
    counts = []
    for seed in (0, 0, 1):
        toy, drawn = make_toy(), []
        optimizer = make(toy, stop=pp.RandomSteps(0.3), rng=seed)
        for _ in range(12):
            toy.train(optimizer, 1)
            drawn.append(optimizer.record.inner_steps)
        counts.append(drawn)
    assert counts[0] == counts[1] != counts[2]
    assert min(counts[0]) >= 1
    assert len(set(counts[0])) > 2


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize(
    "rule", [pp.StronglyConvex(mu=0.1, G=1e-3), pp.Convex(steps=50), pp.NonConvex(), pp.SDane()]
)
def test_the_papers_rules_hold_when_they_end_a_solve(make_toy, rule, sampled):
    toy = make_toy()
    proxy = Proxy(toy.batches(), toy.batch_loss) if sampled else toy.proxy
    optimizer = make(toy, proxy=proxy, stop=rule, inner=ImplicitStep(0.02), check_every=2)
    toy.train(optimizer, 5)
    record = optimizer.record
    assert record.held
    assert record.residual <= record.threshold
    assert record.inner_steps > 0


def test_a_rule_that_never_holds_gives_up_and_says_so(toy):
    optimizer = make(toy, stop=pp.Residual(1e-300), max_inner_steps=7)
    toy.train(optimizer, 1)
    assert optimizer.record.inner_steps == 7
    assert not optimizer.record.held


@pytest.mark.parametrize("anchor", ["full", "paired"])
def test_the_residual_is_truly_measured(make_toy, anchor):
    toy = make_toy()
    proxy = Proxy(toy.batches(), toy.batch_loss)
    optimizer = make(toy, proxy=proxy, measure_residual=True, anchor=anchor, lr=0.3)
    start = toy.flat()
    toy.loss(slice(0, 4)).backward()
    g = torch.cat([p.grad.reshape(-1) for p in toy.params])
    optimizer.step()

    def proxy_gradient(w):
        torch.nn.utils.vector_to_parameters(w, toy.params)
        toy.model.zero_grad()
        toy.proxy().backward()
        return torch.cat([p.grad.reshape(-1) for p in toy.params])

    end = toy.flat()
    expected = proxy_gradient(end) + g - proxy_gradient(start) + (end - start) / 0.3
    assert optimizer.record.residual == pytest.approx(float(expected.norm()), rel=1e-10)
    assert optimizer.record.displacement == pytest.approx(float((end - start).norm()))


# -- groups, decay, clipping, missing gradients ----------------------------------------------


def test_groups_have_their_own_step_size_and_decay(make_toy):
    """Two groups with one setting each equal the separable subproblem solved by hand."""
    toy = make_toy()
    weight, bias = toy.params
    start = [p.detach().clone() for p in toy.params]
    groups = [{"params": [weight], "lr": 0.1, "weight_decay": 0.5}, {"params": [bias]}]
    optimizer = ProxyProx(groups, 0.7, proxy=toy.proxy, stop=2000, inner=ImplicitStep(0.1))
    toy.loss(slice(0, 4)).backward()
    g = [p.grad.clone() for p in toy.params]
    anchor = torch.autograd.grad(toy.proxy(), toy.params)
    optimizer.step()
    there = torch.autograd.grad(toy.proxy(), toy.params)
    for i, (eta, decay) in enumerate([(0.1, 0.5), (0.7, 0.0)]):
        m = g[i] + decay * start[i] - anchor[i]
        residual = there[i] + m + (toy.params[i] - start[i]) / eta
        assert residual.abs().max().item() < 1e-8


def test_decoupled_decay_shrinks_after_the_solve(make_toy):
    a, b = make_toy(), make_toy()
    start = a.flat()
    x = a.train(make(a, weight_decay=0.2, decoupled_weight_decay=True), 1)
    y = b.train(make(b), 1)
    torch.testing.assert_close(x, y - 0.3 * 0.2 * start)


def test_a_group_with_lr_zero_stays_where_it_is(make_toy):
    for inner in (ImplicitStep(0.05), SGD):
        toy = make_toy()
        weight, bias = toy.params
        held = bias.detach().clone()
        groups = [{"params": [weight]}, {"params": [bias], "lr": 0.0}]
        optimizer = ProxyProx(groups, 0.3, proxy=toy.proxy, inner=inner, correction=EMA(0.5))
        before = weight.detach().clone()
        toy.train(optimizer, 3)
        assert torch.equal(bias, held)
        assert not torch.equal(weight, before)


def test_all_groups_at_lr_zero(make_toy):
    toy = make_toy()
    start = toy.flat()
    assert torch.equal(toy.train(make(toy, lr=0.0, measure_residual=True), 2), start)


def test_clipping_clips_the_target_gradient(make_toy):
    a, b = make_toy(), make_toy()
    for toy, clip in ((a, True), (b, False)):
        optimizer = make(toy)
        toy.loss().backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(toy.params, 0.1)
        else:
            scale = 0.1 / torch.cat([p.grad.reshape(-1) for p in toy.params]).norm()
            for p in toy.params:
                p.grad.mul_(scale)
        optimizer.step()
    torch.testing.assert_close(a.flat(), b.flat(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("inner", [ImplicitStep(0.05), SGD], ids=["implicit", "sgd"])
def test_parameters_without_a_gradient_are_left_alone(make_toy, inner):
    toy = make_toy()
    weight, bias = toy.params
    held = bias.detach().clone()
    optimizer = make(toy, inner=inner)
    toy.loss().backward()
    bias.grad = None
    optimizer.step()
    assert torch.equal(bias, held)
    assert bias.grad is None
    assert weight.grad is not None


def test_a_step_without_any_gradient_does_nothing(toy):
    start, optimizer = toy.flat(), make(toy)
    optimizer.step()
    assert torch.equal(toy.flat(), start)
    assert optimizer.ledger.target_gradients == 0
    assert optimizer.record is None


def test_parameters_that_the_proxy_does_not_see(make_toy):
    """Their proxy gradient is zero: the implicit steps approach the SGD step −η g."""
    toy = make_toy()
    extra = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
    optimizer = ProxyProx(
        [*toy.params, extra], 0.1, proxy=toy.proxy, stop=2000, inner=ImplicitStep(0.1)
    )
    (toy.loss() + (extra**2).sum()).backward()
    optimizer.step()
    torch.testing.assert_close(extra.detach(), torch.full((2,), 0.8, dtype=torch.float64))


def test_sparse_gradients_are_refused_with_the_remedy():
    table = torch.nn.Embedding(5, 2, sparse=True)
    optimizer = ProxyProx(table.parameters(), 0.1, proxy=lambda: (table.weight**2).sum())
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match=r"sparse gradients.*sparse=False"):
        optimizer.step()


def test_gradients_are_left_as_they_were(toy):
    optimizer = make(toy, inner=SGD, measure_residual=True)
    toy.loss().backward()
    held = [(p.grad, p.grad.clone()) for p in toy.params]
    optimizer.step()
    for p, (gradient, value) in zip(toy.params, held, strict=True):
        assert p.grad is gradient
        assert torch.equal(p.grad, value)


def test_parameters_outside_the_optimiser_get_no_gradient(make_toy):
    toy = make_toy()
    weight, bias = toy.params
    optimizer = ProxyProx([weight], 0.1, proxy=toy.proxy)
    toy.loss().backward()
    bias.grad = None
    optimizer.step()
    assert bias.grad is None


def test_add_param_group_in_the_middle(make_toy):
    for inner in (ImplicitStep(0.05), functools.partial(torch.optim.Adam, lr=0.02)):
        toy = make_toy()
        weight, bias = toy.params
        optimizer = ProxyProx(
            [weight], 0.3, proxy=toy.proxy, correction=EMA(0.2), inner=inner, stop=5
        )
        toy.train(optimizer, 5)
        optimizer.add_param_group({"params": [bias], "lr": 0.2})
        before = bias.detach().clone()
        toy.train(optimizer, 5)
        assert not torch.equal(bias, before)


# -- closures, hooks, copies -----------------------------------------------------------------


@pytest.mark.parametrize("correction", [Plain(), EMA(0.3)])
def test_closure_and_bare_step_agree(make_toy, correction):
    a, b = make_toy(), make_toy()
    x = a.train(make(a, correction=correction), 4)
    y = b.train(make(b, correction=correction), 4, closure=True)
    assert torch.equal(x, y)


def test_storm_refuses_a_bare_step(toy):
    optimizer = make(toy, correction=Storm(0.2))
    toy.loss().backward()
    start = toy.flat()
    with pytest.raises(TypeError, match=r"needs a closure.*step\(closure\).*EMA"):
        optimizer.step()
    assert torch.equal(toy.flat(), start)


def test_storm_replays_the_randomness_of_the_batch(make_toy):
    """Both evaluations of a batch must see one dropout mask, or there is nothing to compare."""
    toy, masks = make_toy(), []
    optimizer = make(toy, correction=Storm(0.2))

    def closure():
        optimizer.zero_grad()
        masks.append(torch.rand(3))
        toy.loss().backward()

    for _ in range(3):
        optimizer.step(closure)
    assert len(masks) == 5
    assert torch.equal(masks[1], masks[2])
    assert torch.equal(masks[3], masks[4])
    assert not torch.equal(masks[1], masks[3])


def test_hooks_are_called(toy):
    calls = []
    optimizer = make(toy)
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    optimizer.register_state_dict_post_hook(lambda *_: calls.append("saved"))
    optimizer.register_load_state_dict_pre_hook(lambda *_: calls.append("loading"))
    toy.train(optimizer, 1)
    optimizer.load_state_dict(optimizer.state_dict())
    assert calls == ["before", "after", "saved", "loading"]


def test_deepcopy_and_pickle(make_toy):
    toy = make_toy()
    optimizer = ProxyProx(toy.params, 0.1, proxy=None, correction=EMA(0.3))
    toy.train(optimizer, 3)
    for again in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert again.ledger == optimizer.ledger
        for p in again.param_groups[0]["params"]:
            p.grad = torch.ones_like(p)
        again.step()
        assert again.ledger.target_gradients == 4
    assert "lr: 0.1" in repr(optimizer)


def test_a_failing_proxy_leaves_parameters_and_gradients(make_toy):
    toy, calls = make_toy(), []

    def proxy():
        calls.append(1)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return toy.proxy()

    optimizer = make(toy, proxy=proxy, probe=False)
    toy.loss().backward()
    held = [p.grad for p in toy.params]
    optimizer.step()  # takes five of the proxy's gradients
    start = toy.flat()
    with pytest.raises(KeyboardInterrupt):
        optimizer.step()
    assert torch.equal(toy.flat(), start)
    assert all(p.grad is g for p, g in zip(toy.params, held, strict=True))


def test_nan_is_reported_where_it_is_looked_for(toy):
    optimizer = make(toy, proxy=lambda: toy.proxy() * math.nan, measure_residual=True, probe=False)
    toy.loss().backward()
    with pytest.raises(pp.NonFiniteError, match="not finite"):
        optimizer.step()


# -- another proxy ---------------------------------------------------------------------------


def test_swapping_the_proxy_carries_the_estimate(make_toy):
    toy = make_toy()
    optimizer = make(toy, correction=EMA(0.3))
    toy.train(optimizer, 3)
    before = [optimizer.state[p]["estimate"].clone() for p in toy.params]
    old = torch.autograd.grad(toy.proxy(), toy.params)
    new = torch.autograd.grad(toy.loss(slice(8, 20)), toy.params)
    held = [p.grad for p in toy.params]
    optimizer.swap_proxy(lambda: toy.loss(slice(8, 20)))
    for p, m, a, b, g in zip(toy.params, before, old, new, held, strict=True):
        torch.testing.assert_close(optimizer.state[p]["estimate"], m + a - b)
        assert p.grad is g
    toy.train(optimizer, 2)


def test_swapping_for_another_kind_is_refused(toy):
    optimizer = make(toy)
    with pytest.raises(TypeError, match="same kind"):
        optimizer.swap_proxy(Proxy(toy.batches(), toy.batch_loss))
    with pytest.raises(TypeError, match="same kind"):
        optimizer.swap_proxy(None)
