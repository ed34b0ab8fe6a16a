"""Synthetic tokenizers: the files of a Hugging Face tokenizer, with the sizes and special tokens of
a real one and the tokens of ``codebook.py``.

The format is that of the library tokenizers; transformers 4.57 and 5 read it as a
PreTrainedTokenizerFast. The same description gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import tomllib
from pydantic import BaseModel, ConfigDict

from warpserve.bench.models.codebook import REPLACEMENT, vocabulary

_FAMILIES = Path(__file__).with_name("tokenizers.toml")

_WORD = r" ?[^\s]{1,32}|\s"
"""What is looked for tokens in at once. The bound keeps text without spaces from taking quadratic
time; no token is as long."""

_TOOLS = "{% if tools %}{{ tools | tojson }}\n{% endif %}"


class TokenizerFamily(BaseModel):
    """What a synthetic tokenizer has in common with the real one of a family of models."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    size: int
    """Ids of the vocabulary proper, which clients draw from."""
    special: dict[str, int]
    """Tokens with a meaning, which decoding leaves out, by id."""
    marks: dict[str, int] = {}
    """Tokens with a meaning, which decoding shows, by id."""
    bos: str | None = None
    eos: str
    pad: str
    begins_with_bos: bool
    chat_turn: str
    """One message of a chat: Jinja over ``message``."""
    chat_reply: str
    """What the model's answer begins after."""

    @property
    def chat_template(self) -> str:
        begin = "{{ bos_token }}" if self.begins_with_bos else ""
        turns = f"{{% for message in messages %}}{self.chat_turn}{{% endfor %}}"
        reply = f"{{% if add_generation_prompt %}}{self.chat_reply}{{% endif %}}"
        return begin + _TOOLS + turns + reply


@cache
def tokenizer_families() -> dict[str, TokenizerFamily]:
    table = tomllib.loads(_FAMILIES.read_text("utf-8"))
    return {name: TokenizerFamily.model_validate(entry) for name, entry in table.items()}


def write_tokenizer(folder: Path, family: TokenizerFamily, total: int) -> None:
    """Writes ``tokenizer.json`` and ``tokenizer_config.json``.

    ``total``: ids altogether, the vocabulary size of a model's configuration; those that no token
    of the family has become reserved special tokens.
    """
    document = _document(family, total)
    (folder / "tokenizer.json").write_text(json.dumps(document, separators=(",", ":")))
    (folder / "tokenizer_config.json").write_text(json.dumps(_config(family), indent=2) + "\n")


def _config(family: TokenizerFamily) -> dict[str, Any]:
    named = {"bos_token": family.bos, "eos_token": family.eos, "pad_token": family.pad}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{name: token for name, token in named.items() if token is not None},
        "chat_template": family.chat_template,
        "clean_up_tokenization_spaces": False,
    }


def _document(family: TokenizerFamily, total: int) -> dict[str, Any]:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(family, total),
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {
                    "type": "Split",
                    "pattern": {"Regex": _WORD},
                    "behavior": "Isolated",
                    "invert": False,
                },
                byte_level | {"use_regex": False},
            ],
        },
        "post_processor": _post_processor(family),
        "decoder": byte_level | {"use_regex": False},
        "model": {
            "type": "WordPiece",  # the longest that fits, from left to right
            "unk_token": _visible(REPLACEMENT.encode()),  # never, since all bytes are tokens
            "continuing_subword_prefix": "",
            "max_input_chars_per_word": 1000,
            "vocab": _model_vocabulary(family),
        },
    }


def _model_vocabulary(family: TokenizerFamily) -> dict[str, int]:
    inside = {id_: token for token, id_ in _named(family).items() if id_ < family.size}
    tokens = iter(vocabulary(family.size - len(inside)))
    return {inside.get(id_) or _visible(next(tokens)): id_ for id_ in range(family.size)}


def _added_tokens(family: TokenizerFamily, total: int) -> list[dict[str, Any]]:
    by_id = {id_: token for token, id_ in _named(family).items()}
    reserved = {id_: f"<|reserved_{id_}|>" for id_ in range(family.size, total)}
    return [
        {
            "id": id_,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": token not in family.marks,
        }
        for id_, token in sorted((reserved | by_id).items())
    ]


def _named(family: TokenizerFamily) -> Mapping[str, int]:
    return {**family.special, **family.marks}


def _post_processor(family: TokenizerFamily) -> dict[str, Any] | None:
    """What is added to a prompt: nothing, or the token that begins it."""
    if family.bos is None or not family.begins_with_bos:
        return None
    bos = {"SpecialToken": {"id": family.bos, "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    second = {"Sequence": {"id": "B", "type_id": 1}}
    added = {"id": family.bos, "ids": [family.special[family.bos]], "tokens": [family.bos]}
    return {
        "type": "TemplateProcessing",
        "single": [bos, text],
        "pair": [bos, text, second],
        "special_tokens": {family.bos: added},
    }


@cache
def _letters() -> dict[int, str]:
    """A visible letter for each byte, as GPT-2's byte-level encoding has them: printable Latin-1
    stands for itself, the others follow from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [value for value in range(256) if value not in printable]
    return {value: chr(value) for value in printable} | {
        value: chr(0x100 + index) for index, value in enumerate(others)
    }


def _visible(token: bytes) -> str:
    letters = _letters()
    return "".join(letters[value] for value in token)
