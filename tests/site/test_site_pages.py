"""The pages of the site, without building it: each model and method has one, and markers, links and warnings are known."""

import doctest
import os
import re
import shutil
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path, PurePosixPath

import pytest
import yaml

from docs.__main__ import main
from docs.site import reference, verdicts
from docs.site.collect import PAGES, places_of
from docs.site.contents import SECTIONS, contents, with_tree
from docs.site.generate import MARKER, filled, generators
from docs.site.links import LINK, site_links
from docs.site.meanings import MEANINGS, OF_MODELS
from docs.site.support import column_of, row_of
from docs.site.tables import options_table
from inference import EXPORTS, METHODS
from inference.cli.runs.config import expand
from inference.diagnostics.verdicts import VERDICTS
from inference.identification.relabel import EMPTY, OVERLAP, UNTOLD
from inference.runtime.entries import GROUPS, choices, chosen_entries, defaults_with, entry_options, require_key, run_options
from models import MODELS
from models.errors import ZooError

ROOT = Path(__file__).parents[2]
PLACES = places_of(ROOT)
TEXTS = {path: (ROOT / path).read_text(encoding="utf-8") for path in PLACES if path.suffix == ".md"}
MOST_LINES = 60  # of a release in the changelog
ON_CLUSTERS = ROOT / "docs" / "how_to" / "cluster"
STREAMING = {"data.stream"} | {"runtime", *(f"runtime.{name}" for name in ("coordinator", "num_processes", "process_id"))}
NOT_YET = set() if (ROOT / "inference" / "streaming").is_dir() else STREAMING  # options that the code has only with this room
with_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="runs a script of bash")


def page(path):
    return TEXTS[PurePosixPath(path)]


@pytest.mark.parametrize("name", ["contents", "links", "tables"])
def test_examples_run(name):
    found = doctest.testmod(import_module(f"docs.site.{name}"))
    assert found.attempted
    assert not found.failed


@pytest.mark.parametrize(("kind", "names"), [("model", list(MODELS)), ("method", list(METHODS))])
def test_every_model_and_method_has_a_page(kind, names):
    """In the order of the code, each with what the code cannot say."""
    index = page(f"docs/{kind}s/index.md")
    assert re.findall(r"^\w+$", index.partition("{toctree}")[2], re.MULTILINE) == names
    for name in names:
        text = page(f"docs/{kind}s/{name}.md")
        assert text.startswith(f"# {name}: ")
        assert f"<!-- generated: {kind} {name} -->" in text
        assert ("\n## When not to use it\n" if kind == "model" else "\n## When it misleads\n") in text
        assert "**Data it takes.**" in text or kind == "method"
        assert "\n## What it costs\n" in text or kind == "model"


def test_the_guides_name_every_model_and_method():
    models = set(re.findall(r"models/(\w+)\.md", page("docs/start/which_model.md")))
    methods = set(re.findall(r"methods/(\w+)\.md", page("docs/start/which_method.md")))
    assert models == set(MODELS) - {"gmm_simple"}  # which is for courses
    assert methods - {"index"} == set(METHODS)


def test_markers_are_known():
    known = {*generators(), "contents"}
    named = {name for text in TEXTS.values() for name, _ in MARKER.findall(text)}
    assert named == known


def test_a_marker_is_replaced_and_an_unknown_one_is_refused():
    text = "a\n<!-- generated: one x -->\nb"
    assert filled(text, Path(), {"one": lambda argument, folder: f"[{argument}]"}) == "a\n[x]\nb"
    with pytest.raises(KeyError):
        filled("<!-- generated: two -->", Path(), {})


def test_links_of_pages_are_of_files():
    """To a file of the repository; those to headings are for the build, which knows the anchors."""
    broken = []
    for path, text in TEXTS.items():
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
        for found in LINK.finditer(prose):
            made = path.name in PAGES or (path.parent == PurePosixPath("docs/models") and found["target"].endswith(".svg"))
            if not made and not (ROOT / path.parent / found["target"]).exists():
                broken.append((str(path), found["target"]))
    assert not broken


def test_a_folder_without_an_index_is_left_out(tmp_path):
    (tmp_path / "docs" / "course").mkdir(parents=True)
    (tmp_path / "docs" / "course" / "one.md").write_text("# One\n", encoding="utf-8")
    pages = {PurePosixPath(name): PurePosixPath(place) for name, place in PAGES.items()}
    assert places_of(tmp_path) == pages
    (tmp_path / "docs" / "course" / "index.md").write_text("# Course\n", encoding="utf-8")
    assert set(places_of(tmp_path).values()) - set(pages.values()) == {
        PurePosixPath("course/one.md"),
        PurePosixPath("course/index.md"),
    }


def test_links_become_links_between_pages():
    """A page, an anchor, a notebook, a section of the README, a file that is no page, and what is no link."""
    source = PurePosixPath("docs/how_to/resume.md")
    said = {
        "[a](../python.md#b)": "[a](../python.md#b)",
        "[a](../../notebooks/gmm.ipynb)": "[a](../tutorials/gmm.ipynb)",
        "[a](../../README.md#what-runs-with-what)": "[a](../methods/index.md#what-runs-with-what)",
        "[a](../../CHANGELOG.md)": "[a](../project/changelog.md)",
        "[a](../../models/base.py)": "a",
        "MODELS[name](data)": "MODELS[name](data)",
        "[a](https://numpy.org)": "[a](https://numpy.org)",
    }
    assert {text: site_links(text, source, ROOT, PLACES) for text in said} == said


def test_every_warning_has_an_anchor():
    anchors = [verdicts.anchor(verdict.diagnostic) for verdict in VERDICTS]
    assert len(set(anchors)) == len(anchors)
    assert all(f"({anchor})=" in verdicts.verdicts() for anchor in anchors)
    linked = {anchor for text in TEXTS.values() for anchor in re.findall(r"results\.md#(warning-[\w-]+)", text)}
    assert linked
    assert linked <= set(anchors)


def test_remarks_on_labels_are_said_as_in_the_code():
    remarks = page("docs/reference/results.md").partition("## Remarks")[2]
    assert not [words for words in (OVERLAP, EMPTY, UNTOLD) if words not in remarks]


def test_the_reference_has_every_name_and_every_option():
    text = reference.api()
    assert not [name for name in EXPORTS if f":: inference.{name}\n" not in text]
    assert {reference.room_of(module) for module in EXPORTS.values()} == set(reference.ROOMS)
    options = reference.options()
    assert not [name for name in entry_options("data", "file") if f"`data.{name}`" not in options]
    assert not [name for name in choices("data") if f"`{name}`" not in options]


def test_every_option_has_a_meaning():
    """In the table of its method, model or of data; a model's table may point at the docstring above it."""
    tables = {name: options_table("method", name) for name in METHODS} | {"run and data": reference.options()}
    tables |= {name: options_table("model", name) for name in MODELS}
    assert not [(name, line) for name, text in tables.items() for line in text.splitlines() if line.endswith("|  |")]
    known = {option for name in METHODS for option in entry_options("method", name)}
    assert set(OF_MODELS) <= {option for name in MODELS for option in entry_options("model", name)}
    assert set(MEANINGS) <= known | set(run_options()) | set(entry_options("data", "file"))
    assert "&lt;column&gt;" in tables["run and data"]  # and no HTML


def test_the_support_table_is_read():
    assert all(row_of(name).keys() == METHODS.keys() for name in MODELS)
    assert list(column_of("nuts")) == [*MODELS, "your own program"]
    assert column_of("nuts")["your own program"] == "yes"
    assert "–" not in column_of("nuts").values()
    assert row_of("hmm")["exact"] == "–"


def test_contents_leave_out_what_is_not_there():
    assert contents(["labs", "start/index"]).splitlines()[-3:] == ["Start <start/index>", "Labs <labs>", "```"]
    assert {f"{path.with_suffix('')}" for path in PLACES.values()} >= set(SECTIONS) - {"course/index", "labs"}
    assert with_tree("course/index", "{toctree}", ["course/a"]) == "{toctree}"
    assert "/course/a" in with_tree("course/index", "", ["course/a", "course/index"])


@pytest.mark.parametrize("arguments", [["speed=fast"], ["execute=perhaps"]])
def test_a_wrong_argument_is_one_line(arguments, capsys):
    assert main(arguments) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_releases():
    """The newest one is that of the package, and each can be read at a glance."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    sections = re.split(r"^## ", page("CHANGELOG.md"), flags=re.MULTILINE)[1:]
    named = [section for section in sections if not section.startswith("[Unreleased]")]
    assert re.match(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n", named[0])
    assert all(len(section.splitlines()) <= MOST_LINES for section in sections)


def test_the_citation_names_what_is_published():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()
    assert cited["license"] == project["license"]
    assert "version" not in cited  # it has one place


def require_options(words):
    """The options after ``python -m inference.run`` in a command, by name and value; raises for a name that is not one."""
    place = words.index("inference.run")
    assert words[place - 2 : place] == ["python", "-m"]
    (overrides,) = expand([word.replace("$(JOB_COMPLETION_INDEX)", "0") for word in words[place + 1 :]], sweep=False)
    pairs = dict(override.split("=", 1) for override in overrides)
    chosen = chosen_entries({name: value for name, value in pairs.items() if name in GROUPS})
    config = defaults_with(chosen)
    for name in pairs.keys() - GROUPS - NOT_YET:
        require_key(config, name, chosen)
    assert pairs["runtime"] == "distributed"
    return pairs


def require_sbatch(text, folder):
    """A script that bash reads, and whose one command is a new fit, or a resumed one where the run folder is there."""
    folder.mkdir()
    script, srun = folder / "fit.sbatch", folder / "bin" / "srun"
    script.write_text(text, encoding="utf-8")
    assert subprocess.run(["bash", "-n", script], capture_output=True).returncode == 0
    srun.parent.mkdir()
    srun.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n", encoding="utf-8")
    srun.chmod(0o755)
    given = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)$", text, re.MULTILINE))
    environment = {"PATH": f"{srun.parent}:{os.environ['PATH']}", "SLURM_CPUS_PER_TASK": given["cpus-per-task"]}

    def options():
        done = subprocess.run(["bash", script], cwd=folder, env=environment, capture_output=True, text=True, check=True)
        return require_options(done.stdout.splitlines())

    new = options()
    assert {"model", "method", "data.path", "data.stream", "out"} <= new.keys()
    assert int(given["nodes"]) * int(given["ntasks-per-node"]) > 1
    (folder / new["out"].strip("'")).mkdir(parents=True)
    again = options()
    assert again["resume"] == new["out"]
    assert again.keys() <= {"resume", "runtime", "progress"}  # others are refused beside resume=


def require_kubernetes(text):
    """A headless Service and an Indexed Job, whose pods find the first of them by the name and the port of the Service."""
    service, job = yaml.safe_load_all(text)
    assert (service["kind"], job["kind"]) == ("Service", "Job")
    name, spec, pod = job["metadata"]["name"], job["spec"], job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    given = require_options(container["command"] + container["args"])
    assert {"model", "method", "data.path", "data.stream", "out"} <= given.keys()
    assert spec["completions"] == spec["parallelism"] == int(given["runtime.num_processes"])
    assert spec["completionMode"] == "Indexed"
    assert "runtime.process_id=$(JOB_COMPLETION_INDEX)" in container["args"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": name}
    assert service["metadata"]["name"] == pod["subdomain"]
    host, _, port = given["runtime.coordinator"].partition(":")
    assert host == f"{name}-0.{pod['subdomain']}"
    assert [int(port)] == [one["port"] for one in service["spec"]["ports"]]
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}


@with_bash
def test_the_file_for_slurm_is_a_script_and_its_options_are_known(tmp_path):
    text = (ON_CLUSTERS / "fit.sbatch").read_text(encoding="utf-8")
    require_sbatch(text, tmp_path / "right")
    wrong = {"\nfi\n": "\n", "method=em": "method=me", " data.stream=": " data.steam=", "runtime=": "run=", "resume=": "out="}
    for place, (old, new) in enumerate(wrong.items()):
        assert old in text
        with pytest.raises((AssertionError, KeyError, ZooError)):
            require_sbatch(text.replace(old, new), tmp_path / f"{place}")


def test_the_file_for_kubernetes_agrees_with_itself_and_its_options_are_known():
    text = (ON_CLUSTERS / "fit.yaml").read_text(encoding="utf-8")
    require_kubernetes(text)
    wrong = {
        "completions: 4": "completions: 3",
        "parallelism: 4": "parallelism: 3",
        "num_processes=4": "num_processes=3",
        "subdomain: fit": "subdomain: fits",
        "coordinator=fit-0.fit:1234": "coordinator=fit-0.fit:1235",
        "port: 1234": "port: 1235",
        "name: fit # the subdomain": "name: fits # the subdomain",
        "method=em": "method=me",
        "data.stream=": "data.steam=",
        "kind: Job": "kind: Pod",
    }
    for old, new in wrong.items():
        assert old in text
        with pytest.raises((AssertionError, KeyError, ZooError)):
            require_kubernetes(text.replace(old, new))


def test_the_files_for_clusters_are_shown_and_can_be_downloaded():
    text = page("docs/how_to/cluster.md")
    for path in ON_CLUSTERS.iterdir():
        assert PLACES[PurePosixPath(path.relative_to(ROOT).as_posix())] == PurePosixPath("how_to/cluster", path.name)
        assert f"```{{literalinclude}} cluster/{path.name}\n" in text
        assert f"[{path.name}](cluster/{path.name})" in text
