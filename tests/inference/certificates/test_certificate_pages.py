"""Certificates on the screen, their pages, and the table of all of them."""

import numpy as np
import pytest
from made_certificates import made

from inference.certificates import command
from inference.certificates.cell import PLANS, bound_checks, cells
from inference.certificates.cell_page import SHOWN, page_of, write_pages
from inference.certificates.certificate import (
    MODEL_CHECKS,
    Certificate,
    cell_paths,
    read_certificate,
    versions,
    write_certificate,
)
from inference.certificates.checks.figure import COVERAGE, Check, Figure
from inference.certificates.oracles import ORACLES, VARIANTS
from inference.certificates.page import lines_of, picture, table_of
from models import MODELS

NEW = {"chees", "mclmc", "pathfinder", "smc"}  # methods whose cells are certified one after the other


def test_the_screen_names_every_figure_that_failed():
    lines = "\n".join(lines_of(made(1.0, 4.25)))
    assert "gmm gibbs: fails" in lines
    assert "statistic 1: 4.25, and 4.25 when rerun" in lines
    assert "statistic 0" not in lines
    assert "invariant" in lines_of(made(1.0))[0]


def test_the_picture_shows_every_statistic_once():
    axes = picture(made(1.0, 4.0, 20.0)).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["statistic 0", "statistic 1", "statistic 2"]
    assert len(axes.collections[0].get_offsets()) == 3


def test_the_table_names_verdicts(tmp_path):
    """One that passed, one that failed, and cells without any; whole certificates have no budget beside them."""
    write_certificate(made(1.0)._replace(budget="full"), tmp_path / "gmm-gibbs.json")
    write_certificate(made(1.0, 4.0)._replace(method="nuts"), tmp_path / "gmm-nuts.json")
    (row,) = [line for line in table_of(tmp_path, ["gmm"]).splitlines() if line.startswith("| `gmm`")]
    found = dict(zip(PLANS, (cell.strip() for cell in row.strip("|").split("|")[1:]), strict=True))
    assert found == dict.fromkeys(PLANS, "–") | {"gibbs": "[invariant](gmm-gibbs.md)", "nuts": "[fails](gmm-nuts.md), quick"}


def test_the_table_says_why_cells_are_refused(tmp_path):
    """Every cell is in the table of verdicts, or below it with a reason."""
    refused = table_of(tmp_path, list(MODELS)).partition("## Not certified, and why")[2].splitlines()
    for method in PLANS:
        here = [line for line in refused if line.startswith(f"- `{method}` of ")]
        named = {model for model in MODELS for line in here if f"`{model}`" in line.partition(": ")[0]}
        assert named == {model for model in MODELS if (model, method) not in cells()}


def test_a_page_shows_the_figures_nearest_to_their_limits(tmp_path):
    """All that fail come first; how many are left out is said; the picture is there."""
    write_pages(made(4.5, *np.linspace(0, 3, 20)), tmp_path / "gmm-gibbs.json")
    page = (tmp_path / "gmm-gibbs.md").read_text()
    rows = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| statistic")]
    assert rows == [f"| statistic {place}" for place in (0, *range(20, 20 - SHOWN + 1, -1))]
    assert f"{21 - SHOWN} more figures are in `gmm-gibbs.json`" in page
    assert "gmm by gibbs: fails" in page.splitlines()[0]
    assert "again=true" in page
    assert "(gmm-gibbs.svg)" in page
    assert (tmp_path / "gmm-gibbs.svg").is_file()


def test_a_page_names_the_file_that_has_its_figures():
    """Those of parity and contracts are in the file of the model."""
    figures = tuple(Figure(f"contract {place}", 0.0, 1.0, "relative") for place in range(SHOWN + 1))
    contracts = Check("contracts", "a sentence", True, figures, 0.0)
    certificate = made(*np.linspace(0, 3, SHOWN + 1))
    page = page_of(certificate._replace(checks=(contracts, *certificate.checks[-2:])), "gmm-gibbs")
    assert "1 more figure is in `gmm.json`" in page
    assert "1 more figure is in `gmm-gibbs.json`" in page


def test_the_page_of_an_approximation_has_the_size_of_its_bias():
    figures = (
        Figure("share of mean in its 90% interval", 0.6, 1.0, "share"),
        Figure("share of mean in its 90% interval, in the other half", 0.62, 1.0, COVERAGE),
        Figure("shift of mean", 0.4, 1e300, "sd"),
    )
    bias = Check("bias", "a sentence", True, figures, 0.0, "bias")
    certificate = Certificate("gmm", "cavi", "approximate", "full", 0, versions(), (bias,))
    page = page_of(certificate, "gmm-cavi")
    assert "**approximate (62% of 90%)**" in page
    assert "| share of mean in its 90% interval | 0.6 | share |" in page
    assert "| shift of mean | 0.4 | sd |" in page


@pytest.mark.skipif(not command.PUBLISHED.is_dir(), reason="no certificates are published")
def test_no_published_share_is_near_its_limit():
    """Limits of shares do not count in the rate of false alarms: 2,500 replicates are 5 standard errors from each, or more."""
    for path in cell_paths(command.PUBLISHED):
        for figure in (figure for check in read_certificate(path).checks for figure in check.figures):
            if figure.name.endswith("left unchanged") and figure.passed:
                assert figure.value + 5 * np.sqrt(figure.value * (1 - figure.value) / 2_500) < figure.limit, (path, figure)


@pytest.mark.skipif(not command.PUBLISHED.is_dir(), reason="no certificates are published")
def test_the_published_table_is_that_of_the_certificates():
    """`python -m inference.support` renews it."""
    assert (command.PUBLISHED / command.TABLE).read_text(encoding="utf-8") == table_of(
        command.PUBLISHED, [*ORACLES, *VARIANTS], ".json"
    )


@pytest.mark.skipif(not command.PUBLISHED.is_dir(), reason="no certificates are published")
def test_published_certificates_are_whole():
    """Every cell has one in git, with all checks and their witnesses; those of variants and of new methods may have one."""
    published = {path.stem for path in cell_paths(command.PUBLISHED)}
    optional = [*cells(VARIANTS), *(cell for cell in cells() if cell[1] in NEW)]
    variants = [(model, method) for model, method in optional if f"{model}-{method}" in published]
    required = [cell for cell in cells() if cell[1] not in NEW]
    assert published == {f"{model}-{method}" for model, method in [*required, *variants]}
    for path in command.PUBLISHED.iterdir():
        assert path.suffix == ".json" or path.name == command.TABLE
    for model, method in [*required, *variants]:
        certificate = read_certificate(command.PUBLISHED / f"{model}-{method}.json")
        bound = bound_checks(model, method, certificate.budget, certificate.seed)
        assert [(check.name, check.size) for check in certificate.checks] == [(each.name, each.size) for each in bound]
        assert all(check.witness for check in certificate.checks)


def test_the_table_sums_how_often_right_cells_fail(tmp_path):
    """Of two cells of a rate of 1e-6 each; one without a rate is named."""
    for method in ("gibbs", "nuts"):
        write_certificate(made(1.0)._replace(method=method), tmp_path / f"gmm-{method}.json")
    said = "If all 2 cells with a known false-alarm rate are right, at least one fails by a deviation with probability 2e-06 at"
    assert said in table_of(tmp_path, ["gmm"])
    certificate = made(1.0)._replace(method="em")
    unknown = (*certificate.checks[:-1], certificate.checks[-1]._replace(false_alarm=None))
    write_certificate(certificate._replace(checks=unknown), tmp_path / "gmm-em.json")
    assert "No rate is known of `em`." in table_of(tmp_path, ["gmm"])


@pytest.mark.parametrize(("rate", "said"), [(None, "No rate is known of `em`."), (0.0, "")])
def test_no_rate_is_summed_where_chance_plays_no_part(tmp_path, rate, said):
    """Neither an unknown rate nor one of 0 counts as a cell with a rate."""
    certificate = made(1.0)._replace(method="em")
    checks = tuple(check._replace(false_alarm=rate) for check in certificate.checks)
    write_certificate(certificate._replace(checks=checks), tmp_path / "gmm-em.json")
    page = table_of(tmp_path, ["gmm"])
    assert "If all" not in page
    assert said in page
    assert ("No rate" in page) == bool(said)


def test_the_table_sums_how_long_checks_took(tmp_path):
    """Six cells of 1 to 6 hours, half an hour of each for contracts that all share; a folder without any says nothing."""
    assert "took" not in table_of(tmp_path, ["gmm"])
    for hours, method in enumerate(("gibbs", "nuts", "em", "cavi", "map", "advi"), 1):
        *_, law, mutant = made(1.0).checks
        of_model = [law._replace(name=name, seconds=1800.0 * (name == "contracts")) for name in MODEL_CHECKS]
        checks = (*of_model, mutant._replace(seconds=3600.0 * hours - 1800))
        write_certificate(made(1.0)._replace(method=method, checks=checks), tmp_path / f"gmm-{method}.json")
    said = table_of(tmp_path, ["gmm"])
    assert "All checks took 18.5 hours" in said
    assert "The cells with most: `gmm` `advi` (360 minutes), `gmm` `map` (300 minutes)" in said
    assert "`gmm` `gibbs` (" not in said
