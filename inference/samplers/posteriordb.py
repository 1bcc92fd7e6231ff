"""`inference.export_posteriordb`: a result as an entry of a posterior database, with its reference draws and certificate.

The layout is that of posteriordb (Magnusson et al. 2024): JSON about posterior, model, data and draws, and zipped JSON of the
data and of the draws by chain. Entries of arrays are named as Stan names them, from 1.
"""

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from inference.certificates.certificate import Certificate, as_json
from inference.diagnostics.quantities import quantities_of
from inference.engine.task import Kind, kind_of
from inference.results.triangles import sites_of
from inference.runtime.files import write
from inference.samplers.target import target
from models.base import Model
from models.errors import ZooError

ADDED_BY = "Bayes Model Zoo"


def export_posteriordb(
    tree: xr.DataTree, model: Model, data: Any, folder: str | Path, name: str, certificate: Certificate | None = None
) -> Path:
    """Write a result of ``model`` on ``data`` into the posterior database in ``folder``, as ``<name>-<model>``.

    ``certificate`` is that of the model under the method of the result (`inference.certify`); it is stored with the draws.
    Returns the file of the posterior. Raises `ZooError` for a result without draws of the posterior, and for a certificate
    of another model or method.

    >>> posterior = target("gmm_simple")
    >>> tree = fit(posterior.model, posterior.table, "exact", num_samples=100)
    >>> export_posteriordb(tree, posterior.model, posterior.table, "posterior_database", "six-rows").as_posix()
    'posterior_database/posteriors/six-rows-gmm_simple.json'
    """
    method = str(tree.attrs["method"])
    if kind_of(tree) not in (Kind.CHAINS, Kind.INDEPENDENT):
        raise ZooError(f"a result of {method} is not draws of the posterior, and no reference; use exact, gibbs or nuts")
    if certificate is not None and (certificate.model, certificate.method) != (model.name, method):
        raise ZooError(
            f"the certificate is of {certificate.model} {certificate.method}, and the result of {model.name} {method}"
        )
    if certificate is not None and not certificate.passed:
        raise ZooError(f"the certificate of {certificate.model} {certificate.method} has the verdict {certificate.verdict}")
    if not re.fullmatch(r"[A-Za-z0-9_.-]*[A-Za-z0-9_-]", name):
        raise ZooError(f"name={name!r} is to be the name of a file: letters, digits, - and _")
    root, whole = Path(folder), f"{name}-{model.name}"
    draws = sites_of(tree, "posterior")
    made = {"added_by": ADDED_BY, "added_date": datetime.now(UTC).date().isoformat()}
    code = f"models/numpyro/{whole}.py"
    posterior = {
        "name": whole,
        "model_name": whole,
        "data_name": whole,
        "reference_posterior_name": whole,
        "keywords": ["bayes model zoo"],
        "references": [],
        "urls": [],
        "dimensions": {site: int(np.prod(value.shape[2:], dtype=int)) for site, value in draws.items()},
    }
    info = {"name": whole, "keywords": [], "title": model.name, "description": model.description or "", "urls": []}
    implementations = {"model_implementations": {"numpyro": {"model_code": code}}}
    data_info = {"name": whole, "data_file": f"data/data/{whole}.json", "title": name, "description": model.naming.density_of}
    arrays = {key: _plain(value) for key, value in target(model, data).data.items()}
    reference = {"name": whole, "inference": _inference(tree), "diagnostics": _diagnostics(tree), "checks_made": _checks(tree)}
    _write(root / "data/info" / f"{whole}.info.json", data_info | made)
    _write_zipped(root / "data/data" / f"{whole}.json", arrays)
    _write(root / "models/info" / f"{whole}.info.json", info | implementations | made)
    _write_text(root / code, _code(model))
    _write(root / "reference_posteriors/draws/info" / f"{whole}.info.json", reference | {"comments": _comments(tree)} | made)
    _write_zipped(root / "reference_posteriors/draws/draws" / f"{whole}.json", list(_by_chain(draws)))
    if certificate is not None:
        _write_text(root / "reference_posteriors/draws/certificates" / f"{whole}.json", as_json(certificate))
    path = root / "posteriors" / f"{whole}.json"
    _write(path, posterior | made)  # last: an entry that exists is whole
    return path


def _by_chain(draws: dict[str, np.ndarray]) -> Iterator[dict[str, list[float]]]:
    """For every chain: the draws of every entry by its name."""
    for chain in range(len(next(iter(draws.values())))):
        by_entry: dict[str, list[float]] = {}
        for site, value in draws.items():
            for place in np.ndindex(value.shape[2:]):
                index = f"[{','.join(str(1 + at) for at in place)}]" if place else ""
                by_entry[f"{site}{index}"] = value[(chain, slice(None), *place)].astype(float).tolist()
        yield by_entry


def _inference(tree: xr.DataTree) -> dict[str, Any]:
    attrs = {name: value for name, value in tree.attrs.items() if name in ("seed", "num_warmup", "num_samples", "num_chains")}
    return {"method": tree.attrs["method"], "method_arguments": {name: _plain(value) for name, value in attrs.items()}}


def _diagnostics(tree: xr.DataTree) -> dict[str, Any]:
    """Of quantities that no symmetry changes: those of single sites may be of labels that switch."""
    from arviz_stats.base import array_stats

    drawn, names = quantities_of(tree)
    moving = drawn.std((0, 1)) > 0
    drawn, names = drawn[..., moving], names[moving]
    lead = {"chain_axis": 0, "draw_axis": 1}
    return {
        "ndraws": int(drawn.shape[0] * drawn.shape[1]),
        "nchains": int(drawn.shape[0]),
        "diagnostic_information": {"names": [str(name) for name in names]},
        "effective_sample_size_bulk": _plain(array_stats.ess(drawn, **lead)),
        "r_hat": _plain(array_stats.rhat(drawn, **lead)),
    }


def _checks(tree: xr.DataTree) -> dict[str, bool]:
    verdicts = json.loads(tree.attrs.get("verdicts", "[]"))
    return {"all_diagnostics_passed": all(each[-1] == 0 for each in verdicts)}


def _comments(tree: xr.DataTree) -> str:
    relabelled = "posterior_raw" in tree.children
    return "Draws are relabelled: components have one order in all draws." if relabelled else ""


def _code(model: Model) -> str:
    options = ", ".join(f"{name}={_literal(value)!r}" for name, value in model.options.items() if value is not None)
    return (
        f'"""{model.name} of the Bayes Model Zoo: `program.spec` is the NumPyro program."""\n\nfrom models import MODELS\n\n\n'
        f'def program(data):\n    return MODELS["{model.name}"](data, {options})\n'
    )


def _literal(value: Any) -> Any:
    """An option as Python can read it again."""
    if isinstance(value, Mapping):
        return {name: _literal(each) for name, each in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _plain(value: Any) -> Any:
    """JSON has no NaN: a missing cell is null."""
    array = np.asarray(value)
    if array.dtype.kind == "f":
        return np.where(np.isfinite(array), array, None).tolist()  # type: ignore[call-overload]
    return array.tolist()


def _write(path: Path, content: Any) -> None:
    _write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, text.encode())


def _write_zipped(path: Path, content: Any) -> None:
    """``<path>.zip`` with one file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(path.name, json.dumps(content, allow_nan=False))
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path.with_name(f"{path.name}.zip"), buffer.getvalue())
