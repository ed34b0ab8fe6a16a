"""`warpserve gpus`: what there is, and what is known of each kind and how."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich import box, markup
from rich.table import Table

from warpserve.console import console
from warpserve.cuda_shim.catalogue import words
from warpserve.cuda_shim.catalogue.errors import CatalogueError
from warpserve.cuda_shim.catalogue.files import Catalogue
from warpserve.cuda_shim.catalogue.models import Gpu, Source


def gpus(
    name: Annotated[str | None, typer.Argument(help="A kind or alias, to see all of it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    sources: Annotated[bool, typer.Option(help="Show where each value comes from.")] = False,
) -> None:
    """List the GPU kinds, or explain one.

    Your own kinds are read from $WARPSERVE_GPU_PATH and ~/.config/warpserve/gpus.
    """
    try:
        catalogue = Catalogue()
        chosen = list(catalogue.gpus()) if name is None else [catalogue.gpu(name)]
    except CatalogueError as error:
        console(stderr=True).print(markup.escape(str(error)), style="red", soft_wrap=True)
        raise typer.Exit(2) from None
    if as_json:
        documents = [_document(gpu, sources) for gpu in chosen]
        typer.echo(json.dumps(documents if name is None else documents[0], indent=2))
    elif name is None:
        console().print(_overview(chosen))
    else:
        console().print(_explanation(chosen[0], sources))


def _document(gpu: Gpu, sources: bool) -> dict[str, Any]:
    """A kind as JSON, with what its properties derive."""
    document = gpu.model_dump(exclude=None if sources else {"sources"})
    derived = (
        "memory_reserved_bytes", "pcie_bandwidth_bytes_per_s", "nvlink_bandwidth_bytes_per_s"
    )  # fmt: skip
    return document | {field: getattr(gpu, field) for field in derived}


def _overview(kinds: list[Gpu]) -> Table:
    rows = [words.overview(gpu) for gpu in kinds]
    table = Table(box=box.SIMPLE_HEAD, caption="Dense compute; NVLink one direction.")
    for column in rows[0]:
        is_kind = column == "kind"
        table.add_column(column, justify="left" if is_kind else "right", no_wrap=is_kind)
    for row in rows:
        table.add_row(*row.values())
    return table


def _explanation(gpu: Gpu, sources: bool) -> Table:
    """Every field of a kind. Without `sources`, only how sure the value is."""
    table = Table("field", "value", box=box.SIMPLE_HEAD)
    table.add_column("source" if sources else "status", overflow="fold")
    table.title = f"{gpu.kind}: {gpu.summary}"
    for field, value in _fields(gpu).items():
        source = gpu.sources.get(field)
        table.add_row(field, words.plain(field, value), markup.escape(_origin(source, sources)))
    return table


def _origin(source: Source | None, in_full: bool) -> str:
    if source is None:
        return ""
    if not in_full:
        return source.status
    return f"{source.status}: {source.cite}" + (f" ({source.url})" if source.url else "")


def _fields(gpu: Gpu) -> dict[str, object]:
    """Fields and attributes, by their path."""
    plain = {
        field: value for field, value in gpu if field not in ("attributes", "sources", "summary")
    }
    return plain | {f"attributes.{name}": value for name, value in gpu.attributes.items()}
