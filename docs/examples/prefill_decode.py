r"""Prefill and decode apart: two SGLang servers of one GPU each, and SGLang's router before them.

    python -m venv router && router/bin/pip install sglang-router
    SGLANG=~/.cache/warpserve/engines/sglang-0.5.23/bin/python
    warpserve run --gpu h100-sxm:2 --predictor aiconfigurator -- bash -c "
        $SGLANG prefill_decode.py --router router/bin/python --port 8000 \
            --model-path meta-llama/Llama-3.1-8B-Instruct &
        until curl -sf http://127.0.0.1:8000/health; do sleep 1; done
        $SGLANG -m sglang.bench_serving --backend sglang-oai --port 8000 …
        kill %1; wait"

It serves until SIGTERM. Other flags go to both servers.
"""

from __future__ import annotations

import argparse
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

HOST = "127.0.0.1"


def main() -> int:
    arguments, flags = _parser().parse_known_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    processes: list[subprocess.Popen[bytes]] = []
    try:
        bootstrap = _free_port()
        servers = []
        for gpu, part in enumerate(("prefill", "decode")):
            port = _free_port()
            command = [
                sys.executable, "-m", "sglang.launch_server", "--model-path", arguments.model_path,
                "--host", HOST, "--port", str(port), "--base-gpu-id", str(gpu),
                "--disaggregation-mode", part, "--disaggregation-bootstrap-port", str(bootstrap),
                "--disaggregation-transfer-backend", arguments.transfer_backend, *flags,
            ]  # fmt: skip
            processes.append(subprocess.Popen(command))
            servers.append(f"http://{HOST}:{port}")
        for server in servers:
            _await(server, processes)
        prefill, decode = servers
        router = [
            arguments.router, "-m", "sglang_router.launch_router", "--pd-disaggregation",
            "--prefill", prefill, str(bootstrap), "--decode", decode,
            "--host", HOST, "--port", str(arguments.port),
        ]  # fmt: skip
        processes.append(subprocess.Popen(router))
        while all(process.poll() is None for process in processes):
            time.sleep(1)
        return 1
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait()


def _await(server: str, processes: list[subprocess.Popen[bytes]]) -> None:
    while all(process.poll() is None for process in processes):
        try:
            with urllib.request.urlopen(f"{server}/health"):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    sys.exit("a server ended before it was ready")


def _free_port() -> int:
    """SGLang 0.5.14 wants 10,000 more to be a port, too."""
    while True:
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            port = int(probe.getsockname()[1])
        if port <= 55_535:
            return port


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--router", type=Path, required=True, help="a Python with sglang-router")
    parser.add_argument("--port", type=int, required=True, help="the router's")
    parser.add_argument("--model-path", required=True)
    parser.add_argument("--transfer-backend", choices=("mooncake", "nixl"), default="mooncake")
    return parser


if __name__ == "__main__":
    sys.exit(main())
