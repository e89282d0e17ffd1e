"""Sampling: what may be drawn, how likely, and that nothing but a row's own values has a say in it."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from photon.core.request import Choice
from photon.models.moondream.config import MoondreamConfig, RegionConfig, TextConfig, TokenizerConfig, VisionConfig
from photon.models.moondream.model import Moondream
from photon.models.moondream.region import coord_value, size_value
from photon.runtime.choices import MAX_ALLOWED, MAX_BANNED, ChoiceRows
from photon.runtime.sampling import Sampler, pick, uniform

EOS, COORD, SIZE = 0, 5, 6


def plain_top_p(logits: Tensor, temperature: float, top_p: float, draw: float) -> int:
    """Sort, keep what has at most top_p before it, renormalise, invert the distribution function; in float64."""
    probs, order = torch.softmax(logits.double() / temperature, dim=-1).sort(descending=True, stable=True)
    kept: list[float] = []
    for p in probs.tolist():
        if math.fsum(kept) > top_p:
            break
        kept.append(p)
    target, reached = draw * math.fsum(kept), 0.0
    for place, p in enumerate(kept):
        reached += p
        if reached > target:
            return int(order[place])
    return int(order[len(kept) - 1])


def params_of(*rows: tuple[float, float]) -> Tensor:
    return torch.tensor([[temperature, top_p, 0.0, 0.0, 0.0] for temperature, top_p in rows])


@pytest.mark.parametrize("candidates", [2, 8, 300, 3000])
@pytest.mark.parametrize("spread", [0.01, 1.0, 6.0], ids=["flat", "even", "peaked"])
def test_top_p_is_that_of_the_plain_reference(candidates: int, spread: float) -> None:
    generator = torch.Generator().manual_seed(candidates)
    rows = [(t, p) for t in (0.2, 1.0, 2.0) for p in (0.05, 0.3, 0.9, 1.0)]
    logits = torch.randn(len(rows), candidates, generator=generator) * spread
    draws = torch.rand(len(rows), generator=generator)
    picked = pick(logits, params_of(*rows), draws, drawn=True)
    expected = [plain_top_p(x, t, p, float(u)) for x, (t, p), u in zip(logits, rows, draws, strict=True)]
    assert picked.tolist() == expected


def test_frequencies_are_the_renormalised_probabilities() -> None:
    probs, draws = torch.tensor([0.4, 0.3, 0.2, 0.1]), 20_000
    picked = pick(
        probs.log().expand(draws, 4),
        params_of((1.0, 0.75)).expand(draws, 5),
        torch.tensor([uniform(7, i) for i in range(draws)]),
        drawn=True,
    )
    counts = Counter(picked.tolist())
    assert set(counts) == {0, 1, 2}  # .7 stand before the third, .9 before the last
    for token in range(3):
        assert counts[token] / draws == pytest.approx(float(probs[token]) / 0.9, abs=0.015)


@pytest.mark.parametrize("top_p", [0.3, 0.95, 1.0])
@pytest.mark.parametrize("draw", [1 - 2**-24, 1.0], ids=["largest", "rounded up"])
def test_the_largest_draw_stays_within_what_top_p_keeps(top_p: float, draw: float) -> None:
    logits = torch.randn(200, 50, generator=torch.Generator().manual_seed(3))
    logits[:, 40:] = float("-inf")
    picked = pick(logits, params_of((1.0, top_p)).expand(200, 5), torch.full((200,), draw), drawn=True)
    for row, choice in zip(logits, picked.tolist(), strict=True):
        probs = torch.softmax(row, dim=-1)
        assert probs[choice] > 0
        assert probs[probs > probs[choice]].sum() <= top_p


def test_a_row_does_not_depend_on_its_mates_or_its_place() -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(8, 2000, generator=generator) * torch.tensor([0.01, 0.1, 1, 2, 4, 8, 3, 1]).unsqueeze(1)
    params = params_of((2, 1), (0, 0.3), (1, 0.3), (0.7, 0.9), (1, 1), (0.2, 0.05), (0, 1), (1.5, 0.8))
    draws = torch.rand(8, generator=generator)
    together = pick(logits, params, draws, drawn=True)
    for seed in range(5):
        order = torch.randperm(8, generator=torch.Generator().manual_seed(seed))[: 8 - seed]
        assert pick(logits[order], params[order], draws[order], drawn=True).equal(together[order])
    for i in range(8):
        assert pick(logits[i : i + 1], params[i : i + 1], draws[i : i + 1], drawn=True).item() == together[i]


def test_temperature_zero_is_greedy_also_beside_drawn_rows() -> None:
    logits = torch.randn(4, 600, generator=torch.Generator().manual_seed(2))
    params = params_of((0, 1), (2, 1), (0, 0.01), (2, 1))
    picked = pick(logits, params, torch.full((4,), 0.99), drawn=True)
    assert picked[[0, 2]].equal(logits.argmax(dim=-1)[[0, 2]])
    assert not picked[[1, 3]].equal(logits.argmax(dim=-1)[[1, 3]])


def test_uniform_numbers_depend_on_seed_and_index_alone() -> None:
    numbers = [uniform(seed, index) for seed in range(50) for index in range(200)]
    assert numbers == [uniform(seed, index) for seed in range(50) for index in range(200)]
    assert all(0 <= n < 1 for n in numbers)
    assert len(set(numbers)) > 0.99 * len(numbers)
    assert sum(numbers) / len(numbers) == pytest.approx(0.5, abs=0.01)
    assert uniform(1, 0) != uniform(0, 1)


# -- the sampler over a model's heads ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> Moondream:
    torch.manual_seed(0)
    config = MoondreamConfig(
        text=TextConfig(dim=32, ff_dim=32, n_layers=1, vocab_size=64, max_context=64, n_heads=2),
        vision=VisionConfig(
            proj_out_dim=32, crop_size=28, enc_dim=16, enc_n_layers=1, enc_ff_dim=16, enc_n_heads=1, proj_inner_dim=16
        ),
        region=RegionConfig(
            dim=32, coord_feat_dim=8, coord_out_dim=64, size_feat_dim=8, size_out_dim=128, inner_dim=32
        ),
        tokenizer=TokenizerConfig(),
    )
    return Moondream(config).eval()


def sample(
    model: Moondream,
    logits: Tensor,
    choices: list[Choice],
    params: Tensor | None = None,
    parity: bool = False,
) -> tuple[list[int], Tensor, Tensor]:
    """(ids, values, hidden) with one row a choice; greedy without params."""
    rows = torch.zeros(len(choices), 1 + MAX_ALLOWED + MAX_BANNED, dtype=torch.int64)
    kinds = ChoiceRows(COORD, SIZE).stage(choices, rows.numpy())
    drawn = params is not None
    params = torch.zeros(len(choices), 5) if params is None else params
    hidden = torch.randn(len(choices), 32, generator=torch.Generator().manual_seed(9))
    needs = kinds._replace(drawn=drawn)
    with torch.no_grad():
        ids, values = Sampler(model, parity)(hidden, logits, rows, params, needs)
    return ids.tolist(), values, hidden


def random_logits(rows: int) -> Tensor:
    return torch.randn(rows, 64, generator=torch.Generator().manual_seed(4)) * 3


def test_only_allowed_ids_are_taken_and_their_probabilities_are_among_them(model: Moondream) -> None:
    logits = random_logits(3)
    choices = [Choice((COORD, EOS)), Choice((SIZE,)), Choice((7, 20, 41))]
    ids, values, _ = sample(model, logits, choices)
    for row, choice, token, value in zip(logits, choices, ids, values, strict=True):
        allowed = list(choice.allowed or ())
        assert token == max(allowed, key=lambda i: float(row[i]))
        assert float(value[3]) == pytest.approx(float(torch.log_softmax(row[allowed], 0).max()), abs=1e-5)


def test_banned_ids_are_not_taken_and_count_for_nothing(model: Moondream) -> None:
    logits = random_logits(2)
    best = logits.argsort(dim=-1, descending=True)
    banned = tuple(best[0, :3].tolist())
    ids, values, _ = sample(model, logits, [Choice(None, banned), Choice(None)])
    assert ids == [best[0, 3], best[1, 0]]
    without = logits[0].clone()
    without[list(banned)] = float("-inf")
    assert float(values[0, 3]) == pytest.approx(float(torch.log_softmax(without, 0).max()), abs=1e-5)
    assert float(values[1, 3]) == pytest.approx(float(torch.log_softmax(logits[1], 0).max()), abs=1e-5)


def test_banned_ids_are_never_drawn(model: Moondream) -> None:
    rows = 300
    params = torch.tensor([[2.0, 1.0, uniform(3, i), 0, 0] for i in range(rows)])
    ids, _, _ = sample(model, torch.zeros(rows, 64), [Choice(None, (EOS, 3, COORD, SIZE))] * rows, params)
    assert not set(ids) & {EOS, 3, COORD, SIZE}
    assert len(set(ids)) > 50


def test_a_greedy_coordinate_is_its_likeliest_bin(model: Moondream) -> None:
    ids, values, hidden = sample(model, random_logits(2), [Choice((COORD,)), Choice((SIZE,))])
    assert ids == [COORD, SIZE]
    with torch.no_grad():
        coord, size = model.region.decode_coord(hidden[0]), model.region.decode_size(hidden[1])
    assert values[0, 0] == coord_value(coord.argmax(), 64)
    assert values[1, 1:3].equal(size_value(size.argmax(-1), 64))
    assert float(values[0, 4]) == pytest.approx(float(torch.log_softmax(coord, -1).max()), abs=1e-5)
    assert float(values[1, 4]) == pytest.approx(float(torch.log_softmax(size, -1).amax(-1).sum()), abs=1e-5)
    assert values[0, 1:3].tolist() == [0, 0]
    assert values[1, 0] == 0


def test_coordinates_and_sizes_are_drawn_at_a_temperature(model: Moondream) -> None:
    draws = (0.25, 0.6, 0.85)
    params = torch.tensor([[1.5, 0.9, *draws]] * 2)
    _, values, hidden = sample(model, random_logits(2), [Choice((COORD,)), Choice((SIZE,))], params)
    with torch.no_grad():
        coord, size = model.region.decode_coord(hidden[0]), model.region.decode_size(hidden[1])
    assert values[0, 0] == coord_value(torch.tensor(plain_top_p(coord, 1.5, 0.9, draws[1])), 64)
    wide, high = plain_top_p(size[0], 1.5, 0.9, draws[1]), plain_top_p(size[1], 1.5, 0.9, draws[2])
    assert values[1, 1:3].equal(size_value(torch.tensor([wide, high]), 64))
    logprobs = torch.log_softmax(size, -1)
    assert float(values[1, 4]) == pytest.approx(float(logprobs[0, wide] + logprobs[1, high]), abs=1e-5)


def test_free_text_may_hold_coordinates_and_sizes_with_their_values(model: Moondream) -> None:
    logits = torch.zeros(3, 64)
    logits[0, COORD] = logits[1, SIZE] = logits[2, 30] = 9.0
    ids, values, hidden = sample(model, logits, [Choice(None)] * 3)
    assert ids == [COORD, SIZE, 30]
    with torch.no_grad():
        coord, size = model.region.decode_coord(hidden[0]), model.region.decode_size(hidden[1])
    assert values[0, 0] == coord_value(coord.argmax(), 64)
    assert values[1, 1:3].equal(size_value(size.argmax(-1), 64))
    assert values[2, [0, 1, 2, 4]].tolist() == [0, 0, 0, 0]


def test_values_are_not_decoded_where_no_row_can_want_them() -> None:
    rows = ChoiceRows(COORD, SIZE)
    target = torch.zeros(2, 1 + MAX_ALLOWED + MAX_BANNED, dtype=torch.int64).numpy()
    assert tuple(rows.stage([Choice(None, (COORD, SIZE)), Choice((EOS,))], target))[:3] == (True, False, False)
    assert tuple(rows.stage([Choice(None), Choice((EOS,))], target))[:3] == (True, True, True)
    assert tuple(rows.stage([Choice(None, (SIZE,))], target))[:3] == (True, True, False)
    assert tuple(rows.stage([Choice((COORD, EOS))], target))[:3] == (False, True, False)


def test_the_parity_decision_weighs_eos_against_the_whole_vocabulary(model: Moondream) -> None:
    logits = torch.zeros(1, 64)
    logits[0, EOS], logits[0, COORD], logits[0, 30] = 2.0, 1.0, 3.0
    both = Choice((COORD, EOS))
    assert sample(model, logits, [both])[0] == [EOS]
    assert sample(model, logits, [both], parity=True)[0] == [COORD]
    logits[0, 30] = 1.5
    assert sample(model, logits, [both], parity=True)[0] == [EOS]


def test_rows_with_one_allowed_id_need_no_logits(model: Moondream) -> None:
    """The host knows the id; log-probability 0 is that of the only candidate."""
    nothing = torch.full((2, 64), float("nan"))
    ids, values, _ = sample(model, nothing, [Choice((COORD,)), Choice((SIZE,))])
    assert ids == [COORD, SIZE]
    assert values[:, 3].tolist() == [0.0, 0.0]
    mixed, *_ = sample(model, random_logits(2), [Choice((COORD,)), Choice((EOS, 9))])
    assert mixed[0] == COORD


def test_logits_are_made_where_they_are_needed_and_not_given(model: Moondream, monkeypatch: pytest.MonkeyPatch) -> None:
    choices = [Choice((COORD, EOS)), Choice((COORD,))]
    rows = torch.zeros(2, 1 + MAX_ALLOWED + MAX_BANNED, dtype=torch.int64)
    needs = ChoiceRows(COORD, SIZE).stage(choices, rows.numpy())
    hidden = torch.randn(2, 32, generator=torch.Generator().manual_seed(9))
    with torch.no_grad():
        given = Sampler(model)(hidden, model.logits(hidden), rows, torch.zeros(2, 5), needs)
        made = Sampler(model)(hidden, None, rows, torch.zeros(2, 5), needs)
        assert all(torch.equal(a, b) for a, b in zip(given, made, strict=True))
        monkeypatch.setattr(model.text, "logits", None)
        forced = ChoiceRows(COORD, SIZE).stage(choices[1:], rows.numpy())
        assert Sampler(model)(hidden[:1], None, rows[:1], torch.zeros(1, 5), forced)[0].tolist() == [COORD]
