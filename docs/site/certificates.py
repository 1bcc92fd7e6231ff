"""Pages and pictures of the published certificates, from the JSON files in ``docs/certificates/``."""

from pathlib import Path, PurePosixPath

from inference.certificates.cell_page import write_pages
from inference.certificates.certificate import cell_paths, read_certificate
from inference.certificates.command import TABLE
from inference.certificates.oracles import ORACLES, VARIANTS
from inference.certificates.page import table_of


def write_certificates(source: Path) -> list[PurePosixPath]:
    """Write a page for each certificate in ``source``, and the table that leads to them; returns the places of the pages."""
    folder = source / "certificates"
    paths = cell_paths(folder)
    for path in paths:
        write_pages(read_certificate(path), path)
    (folder / TABLE).write_text(table_of(folder, [*ORACLES, *VARIANTS]), encoding="utf-8")
    return [PurePosixPath(path.relative_to(source).with_suffix(".md").as_posix()) for path in paths]
