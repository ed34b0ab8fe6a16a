"""`warpserve models`: which models come with warpserve, and what is known of one."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich import box, markup
from rich.table import Table

from warpserve.bench.models.shipped import ShippedModel, UnknownModel, shipped_model, shipped_models
from warpserve.console import console


def models(
    name: Annotated[str | None, typer.Argument(help="A name, alias or hub id.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """List the models that come with warpserve, or explain one.

    They have no weights: serve them with --load-format dummy. Any other model is served from a
    local folder, or from your own hub cache.
    """
    try:
        chosen = list(shipped_models()) if name is None else [shipped_model(name)]
    except UnknownModel as error:
        console(stderr=True).print(markup.escape(str(error)), style="red", soft_wrap=True)
        raise typer.Exit(2) from None
    if as_json:
        documents = [_document(model) for model in chosen]
        typer.echo(json.dumps(documents if name is None else documents[0], indent=2))
    elif name is None:
        console().print(_overview(chosen))
    else:
        console().print(_explanation(chosen[0]))


def _document(model: ShippedModel) -> dict[str, Any]:
    """A model as JSON, with the configuration of each of its hub ids."""
    document = model.model_dump(mode="json", exclude={"publication", "config"})
    publications = [
        published.model_dump(mode="json", exclude={"changes", "quantization"})
        | {"config": model.config_of(published), "tokenizer": model.tokenizer_of(published)}
        for published in model.publication
    ]
    return document | {"parameters": model.parameters, "publications": publications}


def _overview(chosen: list[ShippedModel]) -> Table:
    table = Table("model", box=box.SIMPLE_HEAD)
    table.add_column("parameters", justify="right")
    table.add_column("vocabulary", justify="right")
    table.add_column("stands for", no_wrap=True)
    table.add_column("what it is")
    for model in chosen:
        table.add_row(
            model.name,
            f"{model.parameters / 1e9:.1f}B",
            f"{model.vocabulary_size:,}",
            model.hub_ids[0],
            model.summary,
        )
    return table


def _explanation(model: ShippedModel) -> Table:
    table = Table("field", "value", box=box.SIMPLE_HEAD, title=f"{model.name}: {model.summary}")
    table.add_row("aliases", ", ".join(model.aliases))
    table.add_row("parameters", f"{model.parameters:,} (published: {model.published_parameters})")
    table.add_row("vocabulary", f"{model.vocabulary_size:,}")
    table.add_row("licence of the weights", model.licence)
    for published in model.publication:
        table.add_row("hub ids", "\n".join(published.hub_ids))
        table.add_row("configuration from", markup.escape(published.source))
    for key, value in model.config_of(model.publication[0]).items():
        table.add_row(f"config.{key}", markup.escape(_short(value)))
    return table


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
