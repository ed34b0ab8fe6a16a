"""Options of a workload, as a user writes them: ``random:input=512,output=64``."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from warpserve.bench.workload.request import WorkloadError

Options = TypeVar("Options", bound=BaseModel)


def options_of(kind: type[Options], workload: str) -> Options:
    """What stands behind the colon. Raises WorkloadError, which names option and choices."""
    _, _, text = workload.partition(":")
    pairs = [part.partition("=") for part in text.split(",") if part]
    try:
        return kind.model_validate({name.strip(): value.strip() for name, _, value in pairs})
    except ValidationError as error:
        mistake = error.errors()[0]
        name = ".".join(map(str, mistake["loc"]))
        is_unknown = mistake["type"] == "extra_forbidden"
        complaint = "is not known" if is_unknown else f"{mistake['msg']}, not {mistake['input']!r}"
        raise WorkloadError(
            f"workload {workload!r}: {name}: {complaint}; it has {', '.join(kind.model_fields)}"
        ) from None
