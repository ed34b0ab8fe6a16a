"""Engine environments, installed from wheels of our own that bear the engines' names."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

WHEELS = {"vllm": ["0.24.0", "0.99.0"]}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for name, versions in WHEELS.items():
        for version in versions:
            info = f"{name}-{version}.dist-info"
            with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
                wheel.writestr(f"{name}.py", f"__version__ = {version!r}\n")
                wheel.writestr(
                    f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
                )
                wheel.writestr(
                    f"{info}/WHEEL",
                    "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
                )
                wheel.writestr(f"{info}/RECORD", "")
    return folder


class Command:
    """`warpserve engine` with a cache folder of its own and those wheels only."""

    def __init__(self, cache: Path, wheels: Path) -> None:
        self.engines = cache / "engines"
        self._env = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(cache),
            "WARPSERVE_CACHE": str(cache),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels),
            "PIP_CONFIG_FILE": "/dev/null",
        }

    def __call__(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "warpserve", "engine", *arguments],
            env=self._env | env,
            capture_output=True,
            text=True,
        )

    def listed(self) -> list[dict[str, str]]:
        listed: list[dict[str, str]] = json.loads(self("list", "--json").stdout)
        return listed


@pytest.fixture
def engine(tmp_path: Path, wheels: Path) -> Command:
    return Command(tmp_path, wheels)


def test_an_environment_is_installed_listed_and_removed(engine: Command) -> None:
    installed = engine("install", "vllm==0.24.0")
    assert installed.returncode == 0, installed.stderr
    path = engine.engines / "vllm-0.24.0"
    assert engine.listed() == [
        {
            "engine": "vllm",
            "version": "0.24.0",
            "python": str(path / "bin/python"),
            "path": str(path),
        }
    ]
    question = [str(path / "bin/python"), "-c", "import vllm; print(vllm.__version__)"]
    assert subprocess.check_output(question, text=True) == "0.24.0\n"
    again = engine("install", "vllm==0.24.0", PIP_FIND_LINKS="/nowhere")
    assert again.returncode == 0, "it was there already"

    assert engine("remove", "vllm==0.24.0").returncode == 0
    assert engine.listed() == []
    assert not path.exists()


def test_a_failed_installation_leaves_its_log_and_no_environment(engine: Command) -> None:
    failed = engine("install", "vllm==0.24.0", PIP_FIND_LINKS="/nowhere")
    assert failed.returncode == 2
    log = engine.engines / "vllm-0.24.0.log"
    assert f"all of it: {log}" in failed.stderr
    assert "No matching distribution" in log.read_text()
    assert engine.listed() == []
    assert engine("install", "vllm==0.24.0").returncode == 0, "the remains are in no one's way"


def test_an_unknown_version_needs_insistence(engine: Command) -> None:
    refused = engine("install", "vllm==0.99.0")
    assert refused.returncode == 2
    assert "vllm==0.24.0" in refused.stderr
    assert engine("install", "--insist", "vllm==0.99.0").returncode == 0
    assert [found["version"] for found in engine.listed()] == ["0.99.0"]


@pytest.mark.parametrize("text", ["vllm", "vllm>=0.24", "vllm==0.24.*", "tgi==1.0", "", "vllm==x"])
def test_what_is_no_engine_in_one_version_is_refused_with_the_choices(
    engine: Command, text: str
) -> None:
    refused = engine("install", text)
    assert refused.returncode == 2
    assert "sglang==0.5.23" in refused.stderr


def test_removing_what_is_not_there_says_so(engine: Command) -> None:
    refused = engine("remove", "vllm==0.24.0")
    assert refused.returncode == 2
    assert "vllm==0.24.0 is not installed" in refused.stderr


def test_a_broken_record_is_named(engine: Command) -> None:
    record = engine.engines / "vllm-0.24.0" / "warpserve-engine.json"
    record.parent.mkdir(parents=True)
    record.write_text('{"engine": "vllm"}')
    listed = engine("list")
    assert listed.returncode == 2
    assert str(record) in listed.stderr
