"""The models that come with warpserve: facts, synthetic tokenizers, the hub folder."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from typer.testing import CliRunner

from warpserve.bench.models import (
    ShippedModel,
    UnknownModel,
    hub_folder,
    model_named,
    parameter_count,
    shipped_model,
    shipped_models,
    snapshots,
)
from warpserve.bench.models.codebook import vocabulary
from warpserve.bench.models.hub import user_hub
from warpserve.bench.models.tokenizer import tokenizer_families, write_tokenizer
from warpserve.cli import app

MODELS = shipped_models()
PUBLISHED = [
    pytest.param(model, published, id=published.hub_ids[0])
    for model in MODELS
    for published in model.publication
]
TOTALS = {
    model.tokenizer_of(published): model.config_of(published)["vocab_size"]
    for model in MODELS
    for published in model.publication
}
PROMPT_TOKENS = 1_024


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder of warpserve's, and a home without a hub cache."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("WARPSERVE_CACHE", str(home / "warpserve"))
        for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
            patch.delenv(name, raising=False)
        yield home / "warpserve"


@pytest.fixture(scope="module")
def tokenizer_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Tokenizer]:
    made: dict[str, Tokenizer] = {}

    def tokenizer_of(name: str) -> Tokenizer:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            write_tokenizer(folder, tokenizer_families()[name], TOTALS[name])
            made[name] = Tokenizer.from_file(str(folder / "tokenizer.json"))
        return made[name]

    return tokenizer_of


# --- facts ---


@pytest.mark.parametrize(
    ("hub_id", "tokens"),
    [
        ("Qwen/Qwen3-30B-A3B", 40_960),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", 262_144),
        ("Qwen/Qwen3-235B-A22B-Thinking-2507-FP8", 262_144),
        ("deepseek-ai/DeepSeek-R1-0528", 163_840),
        ("meta-llama/Llama-3.3-70B-Instruct", 131_072),
    ],
)
@pytest.mark.usefixtures("cache")
def test_each_publication_has_its_own_length(hub_id: str, tokens: int) -> None:
    assert model_named(hub_id).config()["max_position_embeddings"] == tokens


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_the_parameters_are_those_published(model: ShippedModel) -> None:
    published = model.published_parameters.removesuffix("B")
    decimals = len(published.partition(".")[2])
    assert f"{model.parameters / 1e9:.{decimals}f}" == published


@pytest.mark.parametrize(("model", "published"), PUBLISHED)
def test_configuration_and_tokenizer_agree(model: ShippedModel, published: Any) -> None:
    config = model.config_of(published)
    family = tokenizer_families()[model.tokenizer_of(published)]
    special = set(family.special.values())
    assert family.size <= config["vocab_size"]
    assert {family.bos, family.eos, family.pad} <= {None, *family.special}
    for ids in (config, published.generation):
        for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
            named = ids.get(key, [])
            assert set(named if isinstance(named, list) else [named]) <= special, key
    if published is model.publication[0]:
        assert config["vocab_size"] == model.vocabulary_size


def test_every_name_stands_for_one_model() -> None:
    names = [name.lower() for m in MODELS for name in (m.name, *m.aliases, *m.hub_ids)]
    assert len(names) == len(set(names))
    for name in names:
        assert name in [known.lower() for known in _names(shipped_model(name.upper()))]


def _names(model: ShippedModel) -> list[str]:
    return [model.name, *model.aliases, *model.hub_ids]


def test_what_stays_unquantised_is_named_for_each_layer() -> None:
    model = shipped_model("qwen3-30b-a3b-fp8")
    kept = model.config_of(model.publication[0])["quantization_config"]["modules_to_not_convert"]
    assert len(kept) == 1 + 3 * 48
    assert {"lm_head", "model.layers.0.mlp.gate", "model.layers.47.input_layernorm"} <= set(kept)


def test_the_parameters_of_an_unknown_architecture_are_not_guessed() -> None:
    with pytest.raises(KeyError, match="MambaForCausalLM"):
        parameter_count({"architectures": ["MambaForCausalLM"], "hidden_size": 8, "vocab_size": 8})


def test_an_unknown_model_is_refused_with_the_nearest_and_the_way_out() -> None:
    with pytest.raises(UnknownModel, match=r"did you mean qwen3-32b.*local folder"):
        shipped_model("qwen3-33b")
    with pytest.raises(UnknownModel, match=r"'zzz': no such model; `warpserve models`"):
        shipped_model("zzz")


def test_a_folder_whose_tokenizer_can_t_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UnknownModel, match=r"tokenizer\.json is no tokenizer"):
        model_named(str(tmp_path)).tokenizer()


# --- tokenizers ---


@settings(deadline=None)
@given(text=st.text())
def test_any_text_decodes_to_itself(tokenizer_of: Callable[[str], Tokenizer], text: str) -> None:
    tokenizer = tokenizer_of("mistral-1")
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_english_takes_about_as_many_tokens_as_with_a_real_tokenizer(
    tokenizer_of: Callable[[str], Tokenizer],
) -> None:
    text = (
        "Could you help me to plan a trip to Italy for two weeks in September? We would like to "
        "see Rome, Florence and Venice, but also spend some days near the sea. My wife is "
        "interested in art and history, while the children prefer to swim and to eat ice cream. "
        "Please suggest how many days we should stay in each city, how to travel between them, "
        "and what the whole journey might cost a family of four."
    )
    tokens = tokenizer_of("llama-3").encode(text, add_special_tokens=False).ids
    assert 4.0 <= len(text) / len(tokens) <= 4.8


@pytest.mark.parametrize("name", tokenizer_families())
def test_runs_of_consecutive_ids_survive(
    tokenizer_of: Callable[[str], Tokenizer], name: str
) -> None:
    """As `vllm bench serve` and `sglang.bench_serving` draw them."""
    size = tokenizer_families()[name].size
    starts = [*range(0, size, 8 * PROMPT_TOKENS), size - 1]
    prompts = [[(start + i) % size for i in range(PROMPT_TOKENS)] for start in starts]
    assert _lengths(tokenizer_of(name), prompts) == {PROMPT_TOKENS}


def test_a_thousand_prompts_of_random_ids_survive(
    tokenizer_of: Callable[[str], Tokenizer],
) -> None:
    """Ids of the middle half, in any order, as warpserve draws them."""
    draw = random.Random(0)
    size = tokenizer_families()["llama-3"].size
    middle = range(size // 4, 3 * size // 4)
    prompts = [draw.choices(middle, k=PROMPT_TOKENS) for _ in range(1_000)]
    assert _lengths(tokenizer_of("llama-3"), prompts) == {PROMPT_TOKENS}


def test_ids_drawn_from_all_of_a_vocabulary_keep_their_number_almost(
    tokenizer_of: Callable[[str], Tokenizer],
) -> None:
    draw = random.Random(0)
    size = tokenizer_families()["mistral-1"].size
    prompts = [draw.choices(range(size), k=PROMPT_TOKENS) for _ in range(50)]
    lengths = _lengths(tokenizer_of("mistral-1"), prompts)
    assert max(abs(length - PROMPT_TOKENS) for length in lengths) <= 0.005 * PROMPT_TOKENS


def _lengths(tokenizer: Tokenizer, prompts: list[list[int]]) -> set[int]:
    texts = tokenizer.decode_batch(prompts, skip_special_tokens=False)
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    return {len(prompt.ids) for prompt in encoded}


@pytest.mark.parametrize("size", [31_000, 32_000, 128_000])
def test_what_has_no_space_stands_apart_and_only_at_the_ends(size: int) -> None:
    tokens = vocabulary(size)
    assert len(set(tokens)) == len(tokens) == size
    unspaced = [id_ for id_, token in enumerate(tokens) if token[:1] != b" " or token == b" "]
    assert not set(unspaced) & set(range(size // 4, 3 * size // 4))
    assert all(later - earlier > 1 for earlier, later in pairwise([*unspaced, size + unspaced[0]]))
    beginnings = {token[:end] for token in tokens for end in range(1, len(token))}
    assert not {tokens[id_ - 1] for id_ in unspaced} & beginnings, "a filler could be read on"
    assert not any(b" " in token[1:] for token in tokens)


@pytest.mark.parametrize(("size", "complaint"), [(20_000, "few"), (400_000, "many")])
def test_a_vocabulary_that_cannot_be_made_is_refused(size: int, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        vocabulary(size)


@pytest.mark.parametrize("name", tokenizer_families())
def test_ids_are_those_of_the_real_tokenizer(
    tokenizer_of: Callable[[str], Tokenizer], name: str
) -> None:
    family, tokenizer = tokenizer_families()[name], tokenizer_of(name)
    assert tokenizer.get_vocab_size() == TOTALS[name]
    assert tokenizer.get_vocab_size(with_added_tokens=False) == family.size
    for token, id_ in {**family.special, **family.marks}.items():
        assert tokenizer.encode(f"a{token}b", add_special_tokens=False).ids[1] == id_
    begun = tokenizer.encode("a").ids[:-1]
    assert begun == ([family.special[family.bos or ""]] if family.begins_with_bos else [])


def test_a_tokenizer_is_the_same_every_time(tmp_path: Path) -> None:
    files = []
    for attempt in ("one", "two"):
        folder = tmp_path / attempt
        folder.mkdir()
        write_tokenizer(folder, tokenizer_families()["mistral-3"], 32_768)
        files.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert files[0] == files[1]
    assert set(files[0]) == {"tokenizer.json", "tokenizer_config.json"}


# --- hub folder ---


def test_every_hub_id_resolves_without_a_network(cache: Path, tmp_path: Path) -> None:
    env = hub_folder(tmp_path / "hub", {"HOME": str(cache)})
    assert env["HF_HUB_OFFLINE"] == "1"
    for model in MODELS:
        for published in model.publication:
            for hub_id in published.hub_ids:
                found = Path(
                    huggingface_hub.snapshot_download(
                        hub_id, cache_dir=env["HF_HUB_CACHE"], local_files_only=True
                    )
                )
                assert json.loads((found / "config.json").read_text()) == model.config_of(published)
                generation = json.loads((found / "generation_config.json").read_text())
                assert generation == published.generation
                assert (found / "tokenizer.json").is_file()
                assert (found / "tokenizer_config.json").is_file()


def test_what_the_user_has_goes_before(cache: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    mine = _put(own, "Qwen/Qwen3-8B", {"config.json": "{}"})
    _put(own, "Qwen/Qwen3-14B", {"README.md": "no configuration"})
    other = _put(own, "some/other", {"config.json": "{}"})
    (own / "datasets--some--data").mkdir()

    for _ in range(2):
        hub = Path(hub_folder(tmp_path / "hub", {"HF_HUB_CACHE": str(own)})["HF_HUB_CACHE"])

    def resolved(hub_id: str) -> Path:
        found = huggingface_hub.snapshot_download(hub_id, cache_dir=hub, local_files_only=True)
        return Path(found).resolve()

    assert resolved("Qwen/Qwen3-8B") == mine
    assert resolved("some/other") == other
    assert resolved("Qwen/Qwen3-14B").is_relative_to(cache)
    assert (hub / "datasets--some--data").is_dir()
    assert not (own / "models--meta-llama--Llama-3.1-8B").exists(), "theirs stays as it is"


def _put(hub: Path, hub_id: str, files: dict[str, str]) -> Path:
    repository = snapshots.repository(hub, hub_id)
    found = repository / "snapshots" / ("0" * 40)
    found.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(found.name)
    for name, text in files.items():
        (found / name).write_text(text)
    return found


@pytest.mark.parametrize(
    ("env", "folder"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HUGGINGFACE_HUB_CACHE": "/a"}, "/a"),
        ({"HF_HOME": "/b", "HOME": "/h"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/huggingface/hub"),
        ({"HOME": "/h"}, "/h/.cache/huggingface/hub"),
    ],
)
def test_the_users_cache_is_found_as_huggingface_hub_finds_it(
    env: dict[str, str], folder: str
) -> None:
    assert user_hub(env) == Path(folder)


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With one model to be made, the smallest."""
    monkeypatch.setenv("WARPSERVE_CACHE", str(tmp_path))
    monkeypatch.setattr(snapshots, "shipped_models", lambda: (shipped_model("mixtral-8x7b"),))
    return tmp_path / "models"


def test_two_that_make_it_at_once_find_the_same(empty_cache: Path) -> None:
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(snapshots.shipped_hub())) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1]
    assert list(empty_cache.iterdir()) == [found[0]]


def test_what_is_not_finished_is_not_found(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(snapshots, "write_tokenizer", fails)
        with pytest.raises(OSError, match="no space"):
            snapshots.shipped_hub()
    assert list(empty_cache.iterdir()) == []
    assert snapshots.snapshot(snapshots.shipped_hub(), "mistralai/Mixtral-8x7B-v0.1") is not None


# --- by name ---


def test_a_name_stands_for_its_first_hub_id(cache: Path) -> None:
    model = model_named("llama-3.1-8b")
    assert model.reference == "meta-llama/Llama-3.1-8B-Instruct"
    assert model.config()["num_hidden_layers"] == 32
    assert model.tokenizer().get_vocab_size() == 128_256
    assert model.folder.is_relative_to(cache)


def test_a_hub_id_stands_for_itself(cache: Path) -> None:
    assert model_named("meta-llama/llama-3.1-8b").reference == "meta-llama/Llama-3.1-8B"
    assert model_named("mistralai/Mixtral-8x22B-Instruct-v0.1").config()["vocab_size"] == 32_768
    assert cache.is_dir()


def test_a_model_of_the_users_cache_needs_not_be_shipped(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _put(tmp_path, "some/other", {"config.json": '{"hidden_size": 7}'})
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    model = model_named("some/other")
    assert (model.reference, model.folder) == ("some/other", found)
    assert model.config() == {"hidden_size": 7}
    with pytest.raises(UnknownModel, match=r"no tokenizer\.json"):
        model.tokenizer()
    assert cache.parent.is_dir()


def test_a_folder_stands_for_itself_if_it_has_a_configuration(tmp_path: Path) -> None:
    with pytest.raises(UnknownModel, match=r"has no config\.json"):
        model_named(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    assert model_named(str(tmp_path)).reference == str(tmp_path)


# --- the command ---


def test_the_command_lists_and_explains() -> None:
    listed = CliRunner().invoke(app, ["models"])
    assert listed.exit_code == 0
    assert all(model.name in listed.output for model in MODELS)
    one = CliRunner().invoke(app, ["models", "deepseek-r1"])
    assert "kv_lora_rank" in one.output
    assert "671,026,419,200" in one.output


def test_the_command_answers_programs() -> None:
    answer = CliRunner().invoke(app, ["models", "mixtral-8x22b", "--json"])
    document = json.loads(answer.output)
    assert document["parameters"] == 140_620_634_112
    assert [p["config"]["vocab_size"] for p in document["publications"]] == [32_000, 32_768]


def test_the_command_refuses_an_unknown_model() -> None:
    refused = CliRunner().invoke(app, ["models", "qwen3-33b"])
    assert refused.exit_code == 2
    assert "qwen3-32b" in refused.output
