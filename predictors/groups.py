"""Requests of a step as a user writes them. All of it raises PredictorError for what is none."""

from __future__ import annotations

import re
from collections.abc import Sequence

from warpserve.predictors.batch import RequestStep
from warpserve.predictors.predictor import PredictorError

_GROUP = re.compile(r"(\d+)x(\d+)@(\d+)")
_PREFILL = re.compile(r"(\d+)x(\d+)(?:\+(\d+))?")
_DECODE = re.compile(r"(\d+)x(\d+)")


def prefills(texts: Sequence[str]) -> list[RequestStep]:
    """From ``1x2048+6144``: a count, new and cached tokens."""
    requests = []
    for text in texts:
        count, new, cached = _numbers(_PREFILL, text, "COUNTxNEW+CACHED, such as 1x2048+6144")
        requests += [RequestStep(new, cached, is_prefill=True)] * count
    return requests


def decodes(texts: Sequence[str]) -> list[RequestStep]:
    """From ``32x1024``: a count and a context, with the new token."""
    requests = []
    for text in texts:
        count, context = _numbers(_DECODE, text, "COUNTxCONTEXT, such as 32x1024")
        requests += [RequestStep(1, context - 1, is_prefill=False)] * count
    return requests


def groups(text: str | None) -> list[RequestStep]:
    """From ``32x1@1024,1x512@0``: counts, new and cached tokens."""
    requests = []
    for group in text.split(",") if text else ():
        count, new, cached = _numbers(_GROUP, group, "COUNTxNEW@CACHED, such as 32x1@1024")
        requests += [RequestStep(new, cached, is_prefill=new > 1)] * count
    return requests


def _numbers(pattern: re.Pattern[str], text: str, form: str) -> list[int]:
    match = pattern.fullmatch(text.strip())
    numbers = [int(number or 0) for number in match.groups()] if match else []
    if not numbers or 0 in numbers[:2]:
        raise PredictorError(f"{text!r} is no group of requests: say {form}")
    return numbers
