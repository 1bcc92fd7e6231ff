"""Factor analysis and probabilistic PCA (document 002): scores integrated out, rows are Normal with a covariance of low rank.

precision_d ~ Gamma(dof / 2, scatter / 2),    loading_dl ~ Normal(0, 1 / (loading_strength precision_d)),
mean_d ~ Normal(location_d, 1 / (strength precision_d)),    x_n ~ Normal(mean, loading loadingᵀ + diag(1 / precision))

Scores are drawn to simulate rows, and integrated out in the density. In `state_space` the scores of a sequence are a chain,

score_1 ~ Normal(0, 1),    score_t ~ Normal(transition score_t−1, 1),    transition ~ Normal(0, 1 / transition_strength),

and the density of a sequence is that of one Normal vector: no formula of it goes from step to step.
"""

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import stats

from inference.certificates.oracles.answers import Answers
from inference.certificates.oracles.conjugate import total
from inference.certificates.oracles.contracts import Contracts, moved, real_cell, reordered
from inference.certificates.oracles.mixing import far_row
from inference.certificates.oracles.oracle import Oracle, Sites, Slip, Statistics, Tables, ten_percent
from inference.certificates.oracles.posterior import Posterior, weighted
from models.data.table import Data

ROWS, COLUMNS, FACTORS = 6, 3, 1  # more rows than columns: some methods read fewer in their place
LOCATION = np.array([1.0, -0.5, 0.0])
RUNGS, CROWDED = 60, 4  # of the ladder of powers, most of which are near 0
PRIOR = {"loading_strength": 0.5, "strength": 0.4, "dof": 12.0, "scatter": 8.0}


def _noise(sites: Sites) -> np.ndarray:
    """(R, D): the precision of the noise of every column; that of ppca is one number."""
    precision = sites["precision"].reshape(len(sites["precision"]), -1)
    return np.broadcast_to(precision, (len(precision), COLUMNS))


def _draw_parameters(shared: bool, rng: np.random.Generator, replicates: int) -> dict[str, np.ndarray]:
    shape = (replicates,) if shared else (replicates, COLUMNS)
    precision = rng.gamma(PRIOR["dof"] / 2, 2 / PRIOR["scatter"], shape)
    each = _noise({"precision": precision})
    return {
        "precision": precision,
        "loading": rng.normal(size=(replicates, COLUMNS, FACTORS)) * (PRIOR["loading_strength"] * each[..., None]) ** -0.5,
        "mean": rng.normal(LOCATION, (PRIOR["strength"] * each) ** -0.5),
    }


def _draw_tables(rng: np.random.Generator, sites: Sites) -> dict[str, np.ndarray]:
    scores = rng.normal(size=(len(sites["mean"]), ROWS, FACTORS))
    noise = rng.normal(size=(len(scores), ROWS, COLUMNS)) * _noise(sites)[:, None] ** -0.5
    return {"x": sites["mean"][:, None] + np.einsum("rnl,rdl->rnd", scores, sites["loading"]) + noise, "score": scores}


def _complete(sites: Sites, tables: Tables) -> Statistics:
    """The factors of p(x, scores | θ)."""
    scores = tables["score"]
    middle = sites["mean"][:, None] + np.einsum("rnl,rdl->rnd", scores, sites["loading"])
    return {
        "log density of scores": total(stats.norm.logpdf(scores)),
        "log density of rows given scores": total(stats.norm.logpdf(tables["x"], middle, _noise(sites)[:, None] ** -0.5)),
    }


def _covariance(sites: Sites) -> np.ndarray:
    """(R, D, D)."""
    noise = np.eye(COLUMNS) / _noise(sites)[:, None, :]
    return np.einsum("rdl,rel->rde", sites["loading"], sites["loading"]) + noise


def _densities(sites: Sites, x: np.ndarray) -> np.ndarray:
    """(R, N): log p(x_n | θ)."""
    covariance, away = _covariance(sites), x - sites["mean"][:, None]
    distance = np.einsum("rni,rij,rnj->rn", away, np.linalg.inv(covariance), away)
    return -0.5 * (distance + np.linalg.slogdet(covariance)[1][:, None] + COLUMNS * np.log(2 * np.pi))


def _answers(sites: Sites, table: Tables, with_label: bool) -> Answers:
    """Scores and row are Normal together: with C the covariance of a row, E[z | x] = Wᵀ C⁻¹ (x − μ) and I − Wᵀ C⁻¹ W."""
    loading = sites["loading"]
    slope = np.einsum("rdl,rde->rle", loading, np.linalg.inv(_covariance(sites)))
    score = np.einsum("rle,rne->rnl", slope, table["x"] - sites["mean"][:, None])
    spread = 1 - np.einsum("rle,rel->rl", slope, loading)
    variance = np.broadcast_to(spread[:, None], score.shape)
    middle = sites["mean"][:, None] + np.einsum("rdl,rnl->rnd", loading, score)
    rows = _densities(sites, table["x"])
    return Answers(rows, {"reconstruction": middle}, {"scores": (score, variance)}, reported="scores")


def _projected(sites: Sites, table: Tables, with_label: bool) -> Answers:
    answers, loading = _answers(sites, table, with_label), sites["loading"]
    onto = np.einsum("rdl,rle->rde", loading, np.linalg.pinv(loading))
    middle = sites["mean"][:, None] + np.einsum("rde,rne->rnd", onto, table["x"] - sites["mean"][:, None])
    return answers._replace(values={"reconstruction": middle})


def _log_prior(sites: Sites) -> np.ndarray:
    each = _noise(sites)
    loading = stats.norm.logpdf(sites["loading"], 0, (PRIOR["loading_strength"] * each[..., None]) ** -0.5)
    mean = stats.norm.logpdf(sites["mean"], LOCATION, (PRIOR["strength"] * each) ** -0.5)
    precision = stats.gamma(PRIOR["dof"] / 2, scale=2 / PRIOR["scatter"]).logpdf(sites["precision"])
    return total(loading) + total(mean) + total(precision)


def _posterior(shared: bool, rng: np.random.Generator, table: Tables, number: int) -> Posterior:
    """Annealed importance sampling (Neal 2001): draws of the prior on a ladder of powers β of p(x | scores, θ), up to 1.

    At every rung a draw is weighted by the rise of its power, and makes a Gibbs sweep that leaves the density
    p(θ, scores) p(x | scores, θ)^β alone. Draws are independent, the mean weight is p(x), and with many rungs weights are
    nearly even.
    """
    x, sites = table["x"][0], _draw_parameters(shared, rng, number)
    scores, logs = rng.normal(size=(number, ROWS, FACTORS)), np.zeros(number)
    for below, power in pairwise(np.linspace(0, 1, RUNGS + 1) ** CROWDED):
        logs += (power - below) * _log_rows(sites, scores, x)
        sites = _given_scores(shared, rng, x, scores, power)
        scores = _given_parameters(rng, x, sites, power)
    return weighted(sites, logs)


def _log_rows(sites: Sites, scores: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(R,): log p(x | scores, θ)."""
    each = _noise(sites)
    away = x - sites["mean"][:, None] - np.einsum("rnl,rdl->rnd", scores, sites["loading"])
    determinant: np.ndarray = len(x) * (np.log(each) - np.log(2 * np.pi)).sum(1)
    return 0.5 * (determinant - np.einsum("rnd,rd->r", away**2, each))


def _given_parameters(rng: np.random.Generator, x: np.ndarray, sites: Sites, power: float) -> np.ndarray:
    """Scores (R, N, L): Normal with the precision I + β Wᵀ Ψ⁻¹ W."""
    scaled = power * sites["loading"] * _noise(sites)[..., None]
    covariance = np.linalg.inv(np.eye(FACTORS) + np.einsum("rdl,rdm->rlm", sites["loading"], scaled))
    middle = np.einsum("rnd,rdl,rlm->rnm", x - sites["mean"][:, None], scaled, covariance, optimize=True)
    noise = rng.normal(size=middle.shape)
    return middle + np.einsum("rlm,rnm->rnl", np.linalg.cholesky(covariance), noise)


def _given_scores(
    shared: bool, rng: np.random.Generator, x: np.ndarray, scores: np.ndarray, power: float
) -> dict[str, np.ndarray]:
    """Loadings, means and noise: a linear regression of the columns on (scores, 1), whose rows count β times.

    Their posterior is Normal-Gamma (Gelman et al. 2013, chapter 14).
    """
    number, rows = len(scores), len(x)
    design = np.concatenate([scores, np.ones((number, rows, 1))], axis=-1)
    before = np.diag([PRIOR["loading_strength"]] * FACTORS + [PRIOR["strength"]])
    at = np.concatenate([np.zeros((COLUMNS, FACTORS)), LOCATION[:, None]], axis=1)  # prior mean of the coefficients
    inverse = np.linalg.inv(before + power * np.einsum("rni,rnj->rij", design, design))
    moment = at @ before + power * np.einsum("nd,rni->rdi", x, design)
    location = np.einsum("rij,rdj->rdi", inverse, moment)
    added = power * (x**2).sum(0) + np.einsum("di,ij,dj->d", at, before, at) - np.einsum("rdi,rdi->rd", moment, location)
    if shared:
        added = added.sum(1, keepdims=True)
    dof = PRIOR["dof"] + power * rows * (COLUMNS if shared else 1)
    precision = rng.gamma(dof / 2, 2 / (PRIOR["scatter"] + added))
    spread = np.linalg.cholesky(inverse)[:, None] * precision[..., None, None] ** -0.5
    noise = rng.normal(size=location.shape)
    drawn = location + np.einsum("rdij,rdj->rdi", np.broadcast_to(spread, (*location.shape, FACTORS + 1)), noise)
    return {
        "precision": precision[:, 0] if shared else precision,
        "loading": drawn[..., :FACTORS],
        "mean": drawn[..., FACTORS],
    }


def _functions(sites: Sites, tables: Tables) -> Statistics:
    covariance, x = _covariance(sites), tables["x"]
    scatter = x - x.mean(1, keepdims=True)
    of_rows = (scatter[..., 0] * scatter[..., 1]).mean(1)
    strength = (sites["loading"] ** 2 * _noise(sites)[..., None]).sum((1, 2))
    return {
        "log determinant of the covariance": np.linalg.slogdet(covariance)[1],
        "strength of the factor": strength,
        "covariance of the first two columns": covariance[:, 0, 1],
        "covariance of the first two columns, of model times of rows": covariance[:, 0, 1] * of_rows,
        "product of row mean and mean": (x.mean(1) * sites["mean"]).sum(-1),
        "scatter of rows times precision": (scatter**2).sum((1, 2)) * _noise(sites).mean(1),
        "sum of log precisions": np.log(_noise(sites)).sum(-1),
    }


def _table(tables: Tables, replicate: int) -> Data:
    return Data("table", tables["x"][replicate], ("x0", "x1", "x2"))


def _oracle(model: str, shared: bool) -> Oracle:
    def options(dof: float) -> dict[str, Any]:
        return {"num_factors": FACTORS, "prior": {"loading": PRIOR | {"location": LOCATION, "dof": dof}}}

    location = ("prior", "loading", "location")
    return Oracle(
        model=model,
        options=options(PRIOR["dof"]),
        draw_parameters=partial(_draw_parameters, shared),
        draw_tables=_draw_tables,
        table=_table,
        log_prior=_log_prior,
        log_likelihood=lambda sites, tables: _densities(sites, tables["x"]).sum(1),
        functions=_functions,
        answers=_answers,
        contracts=Contracts(
            COLUMNS * FACTORS + COLUMNS + (1 if shared else COLUMNS),  # one factor has no rotation
            reordered(
                (2, 0, 1), {"loading": (-2,), "mean": (-1,)} | ({} if shared else {"precision": (-1,)}), {location: (0,)}
            ),
            moved("mean", location, range(COLUMNS)),
            (real_cell(0, 0), real_cell(5, 2)),
        ),
        slips=(Slip("the projection of a row for its reconstruction (E8)", _projected),),
        far=far_row,
        posterior=partial(_posterior, shared),
        signs=("loading",),
        mutant=ten_percent("dof", PRIOR["dof"], options),
        latent="score",
        complete=_complete,
    )


def factor_analysis() -> Oracle:
    """One factor of three columns with separate noise."""
    return _oracle("factor_analysis", shared=False)


def ppca() -> Oracle:
    """One factor of three columns with the same noise."""
    return _oracle("ppca", shared=True)


# ---------------------------------------------------------------------------------------------------------------------
# Sequences

SEQUENCES, STEPS = 3, 4
MOVE = 12.0  # the strength of the transition


def _paths(sites: Sites) -> np.ndarray:
    """(R, T, T): scores are this matrix times independent standard Normals: transitionˢ⁻ᵗ from step t to step s."""
    lag = np.subtract.outer(np.arange(STEPS), np.arange(STEPS))
    return np.where(lag >= 0, sites["transition"].reshape(-1, 1, 1) ** np.maximum(lag, 0), 0.0)


def _draw_paths(rng: np.random.Generator, replicates: int) -> dict[str, np.ndarray]:
    move = rng.normal(size=(replicates, FACTORS, FACTORS)) * MOVE**-0.5
    return _draw_parameters(False, rng, replicates) | {"transition": move}


def _draw_sequences(rng: np.random.Generator, sites: Sites) -> dict[str, np.ndarray]:
    path = np.einsum("rst,rnt->rns", _paths(sites), rng.normal(size=(len(sites["mean"]), SEQUENCES, STEPS)))
    middle = sites["mean"][:, None, None] + path[..., None] * sites["loading"][:, None, None, :, 0]
    return {"x": middle + rng.normal(size=middle.shape) * _noise(sites)[:, None, None] ** -0.5, "path": path[..., None]}


def _factors_of_paths(sites: Sites, tables: Tables) -> Statistics:
    path = tables["path"][..., 0]
    before = np.concatenate([np.zeros_like(path[..., :1]), path[..., :-1]], axis=-1) * sites["transition"]
    middle = sites["mean"][:, None, None] + path[..., None] * sites["loading"][:, None, None, :, 0]
    return {
        "log density of scores": total(stats.norm.logpdf(path, before)),
        "log density of rows given scores": total(stats.norm.logpdf(tables["x"], middle, _noise(sites)[:, None, None] ** -0.5)),
    }


def _sequence_answers(sites: Sites, table: Tables, with_label: bool) -> Answers:
    """Scores and cells of a sequence are Normal together: (T,) and (T D,), which has the covariance P ⊗ W Wᵀ + I ⊗ Ψ."""
    number, loading = len(sites["mean"]), sites["loading"][..., 0]
    spread = np.einsum("rst,rut->rsu", _paths(sites), _paths(sites))
    across = np.einsum("rsu,rd->rsud", spread, loading)  # of score s and cell (u, d)
    whole = np.einsum("rc,rsud->rscud", loading, across).reshape(number, STEPS * COLUMNS, -1)
    whole = whole + np.einsum("re,ef->ref", np.tile(1 / _noise(sites), STEPS), np.eye(STEPS * COLUMNS))
    slope = np.einsum("rse,ref->rsf", across.reshape(number, STEPS, -1), np.linalg.inv(whole))
    away = (table["x"] - sites["mean"][:, None, None]).reshape(*np.broadcast_shapes((number, 1), table["x"].shape[:2]), -1)
    score = np.einsum("rse,rne->rns", slope, away)
    left = np.einsum("rss->rs", spread) - np.einsum("rse,rse->rs", slope, across.reshape(number, STEPS, -1))
    variance = np.broadcast_to(left[:, None], score.shape)
    distance = np.einsum("rne,ref,rnf->rn", away, np.linalg.inv(whole), away)
    density = -0.5 * (distance + np.linalg.slogdet(whole)[1][:, None] + STEPS * COLUMNS * np.log(2 * np.pi))
    each = loading[:, None, None]
    middle = sites["mean"][:, None, None] + score[..., None] * each
    cells = variance[..., None] * each**2 + 1 / _noise(sites)[:, None, None]
    found = {"factors": (score[..., None], variance[..., None]), "reconstruction": (middle, cells)}
    return Answers(density, uncertain=found, reported="factors")


def _filtered(sites: Sites, table: Tables, with_label: bool) -> Answers:
    """Every step by itself, as if the steps of a sequence were rows of factor analysis."""
    return _sequence_answers({**sites, "transition": 0 * sites["transition"]}, table, with_label)


def _path_posterior(rng: np.random.Generator, table: Tables, number: int) -> Posterior:
    """As `_posterior`, with the path of every sequence in place of its scores, and the transition given the paths."""
    x, sites = table["x"][0].reshape(-1, COLUMNS), _draw_paths(rng, number)
    path, logs = _draw_sequences(rng, sites)["path"][..., 0], np.zeros(number)
    for below, power in pairwise(np.linspace(0, 1, 3 * RUNGS + 1) ** CROWDED):
        logs += (power - below) * _log_rows(sites, path.reshape(number, -1, 1), x)
        moved = _given_scores(False, rng, x, path.reshape(number, -1, 1), power)
        precision = MOVE + (path[..., :-1] ** 2).sum((1, 2))
        centre = (path[..., :-1] * path[..., 1:]).sum((1, 2)) / precision
        sites = moved | {"transition": (centre + rng.normal(size=number) * precision**-0.5)[:, None, None]}
        scaled = power * sites["loading"][..., 0] * _noise(sites)
        steps = np.eye(STEPS) - sites["transition"] * np.eye(STEPS, k=-1)
        seen = (scaled * sites["loading"][..., 0]).sum(1)[:, None, None] * np.eye(STEPS)
        covariance = np.linalg.inv(np.swapaxes(steps, 1, 2) @ steps + seen)
        pull = ((x - sites["mean"][:, None]) @ scaled[..., None]).reshape(number, SEQUENCES, STEPS)
        noise = rng.normal(size=pull.shape) @ np.swapaxes(np.linalg.cholesky(covariance), 1, 2)
        path = pull @ covariance + noise
    return weighted(sites, logs)


def _path_functions(sites: Sites, tables: Tables) -> Statistics:
    x, move = tables["x"], sites["transition"][:, 0, 0]
    lagged = ((x[:, :, 1:] - x.mean((1, 2), keepdims=True)) * (x[:, :, :-1] - x.mean((1, 2), keepdims=True))).mean((1, 2))
    flat = {"x": x.reshape(len(x), -1, COLUMNS)}
    return _functions(sites, flat) | {
        "transition times covariance of successive steps": move * lagged[:, 0],
        "square of the transition": move**2,
    }


def _sequences(tables: Tables, replicate: int) -> Data:
    x = tables["x"][replicate]
    return Data("sequences", x.reshape(-1, COLUMNS), ("x0", "x1", "x2"), starts=np.arange(0, len(x) * STEPS + 1, STEPS))


def state_space() -> Oracle:
    """Three sequences of four steps, three columns, one factor."""

    def options(dof: float) -> dict[str, Any]:
        columns = PRIOR | {"location": LOCATION, "dof": dof}
        return {"num_factors": FACTORS, "prior": {"loading": columns, "transition": {"strength": MOVE}}}

    rows = _oracle("state_space", shared=False)
    return rows._replace(
        options=options(PRIOR["dof"]),
        draw_parameters=_draw_paths,
        draw_tables=_draw_sequences,
        table=_sequences,
        log_prior=lambda sites: _log_prior(sites) + total(stats.norm.logpdf(sites["transition"], 0, MOVE**-0.5)),
        log_likelihood=lambda sites, tables: np.asarray(_sequence_answers(sites, tables, False).log_density, float).sum(1),
        functions=_path_functions,
        answers=_sequence_answers,
        contracts=rows.contracts._replace(free=rows.contracts.free + FACTORS, missing=(real_cell(0, 0), real_cell(9, 2))),
        slips=(Slip("every step by itself, as rows of factor analysis", _filtered),),
        posterior=_path_posterior,
        mutant=ten_percent("dof", PRIOR["dof"], options),
        latent="path",
        complete=_factors_of_paths,
    )
