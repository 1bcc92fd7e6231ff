"""Everything that the package writes goes through the store."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WRITERS = {"to_netcdf", "to_csv", "to_html", "to_json", "to_parquet", "to_pickle", "to_zarr", "write_text", "write_bytes"}
WRITERS |= {
    "savefig",
    "savez",
    "savez_compressed",
    "save",
    "savetxt",
    "tofile",
    "dump",
    "touch",
    "copyfile",
    "copy2",
    "copytree",
}
DOORS = {f"inference/runtime/{name}.py" for name in ("files", "pieces", "lock")}
DOORS |= {"inference/support.py"}  # it writes the README
DOORS |= {"labs/submission.py"}  # it copies a student's file to a temporary folder, which the file may spoil
BUFFERS = ("buffer", "io.BytesIO", "io.StringIO")
# `save` is theirs, and goes by the store
OURS = {"inference/results/tree.py", *(f"inference/cli/runs/{name}.py" for name in ("execute", "execute_blocks", "run_folder"))}


def writes(call):
    """What a call does to the disk, or None: its name is one that writes, or it opens a file otherwise than to read."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    text = [ast.unparse(part) for part in (*call.args, *(keyword.value for keyword in call.keywords))]
    if ast.unparse(call.func) == "ast.dump":  # a text of a syntax tree
        return None
    if name in WRITERS:
        in_memory = any(part.startswith(BUFFERS) for part in text)
        as_text = name in ("to_netcdf", "to_csv", "to_html", "to_json") and not call.args  # the content is returned
        return None if in_memory or as_text else name
    if name not in ("open", "fdopen") or text[:1] == ["os.devnull"]:
        return None
    of_os = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "os"
    of_path = isinstance(call.func, ast.Attribute) and not of_os and len(call.args) < 2  # gzip.open(path, mode) has two
    place = 0 if of_path else 1
    modes = [k.value for k in call.keywords if k.arg in ("mode", "flags")] + call.args[place : place + 1]
    reads = not modes or (isinstance(modes[0], ast.Constant) and set(str(modes[0].value)) <= set("rbt"))
    return None if reads or (of_os and ast.unparse(modes[0]) == "os.O_RDONLY") else name


def offences(path, source):
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    found = [(node.lineno, name) for node in calls if (name := writes(node)) is not None]
    return [f"{path}:{line}: {name}" for line, name in found if not (name == "save" and path in OURS)]


def test_nothing_else_writes():
    """Every file of the package goes through the store, but for the lock, and the table that support keeps in the README."""
    files = [file for part in ("models", "inference", "labs") for file in sorted((ROOT / part).rglob("*.py"))]
    assert len(files) > 100
    found = {str(file.relative_to(ROOT)): file.read_text() for file in files}
    assert [line for path, source in found.items() if path not in DOORS for line in offences(path, source)] == []


@pytest.mark.parametrize(
    "source",
    [
        "open(path, 'w')",
        "open(path, mode='ab')",
        "path.open('x')",
        "os.open(path, os.O_CREAT | os.O_WRONLY)",
        "os.fdopen(file, 'wb')",
        "open(path, mode)",
        "frame.to_html(path)",
        "frame.to_csv(path, index=False)",
        "np.save(path, x)",
        "json.dump(x, file)",
        "path.write_text(x)",
        "figure.savefig(path)",
    ],
)
def test_what_writes_is_found(source):
    assert offences("models/x.py", source)
    for harmless in (
        "open(path)",
        "open(path, 'rb')",
        "path.open()",
        "os.open(folder, os.O_RDONLY)",
        "frame.to_csv(index=False)",
        "ast.dump(tree)",
    ):
        assert not offences("models/x.py", harmless)
