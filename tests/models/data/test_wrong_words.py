"""A wrong word gets one message with the word that was meant: misspelt, of another library's, or of another call."""

import inspect

import pandas as pd
import pytest

import inference
import models
from inference import estimators, fit
from inference.methods import METHODS
from inference.methods.method import method_named
from models import MODELS, ZooError, load_data
from models.datasets.tables import DATASETS
from models.errors import SYNONYMS

FRAME = pd.DataFrame({"height": [1.5, 2.0, 3.0, 9.0], "species": list("xyxy")})
MODEL = MODELS["gmm"]([[1.0], [2.0], [4.0]])


def options_of(function):
    return set(inspect.signature(function).parameters)


KNOWN = (
    set().union(*map(options_of, MODELS.values()), *map(options_of, DATASETS.values()), options_of(fit))
    | set().union(*(method_named(name).options._fields for name in METHODS))
)  # fmt: skip


def fitted(method="gibbs", **options):
    return lambda: fit(MODEL, [[1.0]], method, **options)


WRONG = {
    "of a model": (lambda: MODELS["gmm"](FRAME, covarance="full"), "'covarance' (did you mean covariance?)"),
    "of scikit-learn": (lambda: MODELS["gmm"](FRAME, n_components=3), "'n_components' (did you mean num_components?)"),
    "of hmmlearn": (lambda: MODELS["hmm"](FRAME, n_components=3), "'n_components' (did you mean num_states?)"),
    "of a preset": (lambda: MODELS["gmm_simple"](FRAME, n_clusters=3), "gmm_simple has no option 'n_clusters'"),
    "of a method": (fitted(num_chain=4), "'num_chain' (did you mean num_chains?)"),
    "of PyMC": (fitted(tune=4), "'tune' (did you mean num_warmup?)"),
    "of every method": (fitted(random_state=4), "'random_state' (did you mean seed?)"),
    "of another method": (fitted("hard_em", hottest=0.1), "'hottest' (tempered_gibbs takes it)"),
    "of the model": (fitted(num_components=3), "(the model takes it: MODELS[…](data, num_components=…))"),
    "method": (fitted("EM"), "chees, mclmc, smc (did you mean em?)"),
    "model": (lambda: MODELS["gmmm"], "'gmmm' (did you mean gmm?)"),
    "model of two names": (lambda: MODELS["LDA"], "'LDA' (did you mean latent_dirichlet or linear_discriminant?)"),
    "model with a hyphen": (lambda: MODELS["k-means"], "'k-means' (did you mean gmm?)"),
    "data set": (lambda: load_data("irs"), "(did you mean iris?)"),
    "of a data set": (lambda: load_data("blobs", n_samples=9), "'n_samples' of data set blobs (did you mean num_rows?)"),
    "of a table": (lambda: load_data(FRAME, lable="species"), "'lable' (did you mean label?)"),
    "label of a table": (lambda: load_data(FRAME, label="Specie"), "'Specie' (did you mean species?)"),
    "label of a data set": (lambda: load_data("iris", label="specie"), "'specie' (did you mean species?)"),
    "column": (lambda: load_data("iris", columns=["petal width"]), "'petal width' (did you mean petal width (cm)?)"),
}


@pytest.mark.parametrize(("call", "said"), WRONG.values(), ids=WRONG)
def test_one_message_names_the_word_that_was_meant(call, said):
    with pytest.raises(ZooError) as raised:
        call()
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_word_that_is_like_no_other_gets_no_guess():
    with pytest.raises(ZooError) as raised:
        MODELS["gmm"](FRAME, zebra=1)
    assert "did you mean" not in str(raised.value)
    assert "it takes num_components, covariance" in str(raised.value)


def test_synonyms_lead_to_names_that_there_are():
    assert {name for names in SYNONYMS.values() for name in names} <= KNOWN | set(MODELS) | set(METHODS)
    assert not set(SYNONYMS) & {*MODELS, *METHODS}
    assert all(word == word.lower() for word in SYNONYMS)
    assert not set(SYNONYMS) & {option for build in (MODELS["gmm"], fit) for option in options_of(build)} - {"num_components"}


@pytest.mark.parametrize("name", MODELS)
def test_build_functions_show_their_own_signature(name):
    build = MODELS[name]
    assert repr(build).startswith(f"{name}(data, ")
    assert set(inspect.signature(build).parameters) == options_of(build.func)
    assert inspect.getdoc(build) == inspect.getdoc(build.func)


@pytest.mark.parametrize("module", [inference, models, estimators], ids=lambda module: module.__name__)
def test_dir_lists_the_public_names_only(module):
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)


def test_a_file_beside_is_meant(tmp_path):
    (tmp_path / "survey.csv").write_text("x\n1\n")
    with pytest.raises(ZooError, match=r"surveys.csv' is neither a file .*\(did you mean survey.csv\?\)"):
        load_data(tmp_path / "surveys.csv")
    with pytest.raises(ZooError) as raised:
        load_data(tmp_path / "nowhere" / "surveys.csv")
    assert "did you mean" not in str(raised.value)
