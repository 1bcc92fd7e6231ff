"""`environment.json` of a run folder: what a run was made on, whole or damaged."""

import json

import pytest
from quick_runs import QUICK

from inference.cli.runs.config import compose
from inference.cli.runs.stored_run import has_environment, write_config


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"cores": ', '"cores": 1'),
        lambda text: text[: len(text) // 2],
        lambda text: "{}",
        lambda text: "[]",
        lambda text: "",
        lambda text: text.replace("\n", "\n\n"),
        None,
    ],
)
def test_a_damaged_environment_is_not_declared_whole(tmp_path, capsys, damage):
    """A resumed run replaces it, and says so; one that is whole stays, also if another version of Python wrote it."""
    path, config = tmp_path / "environment.json", compose(QUICK)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("inference.results.tree.environment", lambda: {"python": "3.0", "cores": 2, "packages": {}})
        write_config(config, tmp_path)
    before = path.read_text()
    assert json.loads(before)["python"] == "3.0"
    if damage:
        path.write_text(damage(before))
    assert has_environment(tmp_path) is (damage is None)
    write_config(config | {"resume": str(tmp_path)}, tmp_path)
    assert has_environment(tmp_path)
    assert (json.loads(path.read_text())["python"] == "3.0") is (damage is None)
    assert ("environment.json was damaged" in capsys.readouterr().err) is (damage is not None)


def test_an_environment_of_an_earlier_version_is_kept(tmp_path, capsys):
    """It has no checksum: a resumed run neither replaces it nor calls it damaged."""
    write_config(compose(QUICK), tmp_path)
    path = tmp_path / "environment.json"
    earlier = json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != "sha256"})
    path.write_text(earlier)
    assert has_environment(tmp_path)
    write_config(compose(QUICK) | {"resume": str(tmp_path)}, tmp_path)
    assert path.read_text() == earlier
    assert "damaged" not in capsys.readouterr().err
