r"""Prefill and decode apart: two vLLM servers of one GPU each, NIXL between them, a proxy in front.

    VLLM=~/.cache/warpserve/engines/vllm-0.24.0/bin
    warpserve run --gpu h100-sxm:2 --predictor aiconfigurator -- bash -c "
        $VLLM/python prefill_decode_vllm.py --port 8000 meta-llama/Llama-3.1-8B-Instruct &
        until curl -sf http://127.0.0.1:8000/health; do sleep 1; done
        $VLLM/vllm bench serve --port 8000 --model meta-llama/Llama-3.1-8B-Instruct …
        kill %1; wait"

The proxy has each request prefilled by the first server, and sends it on to the second with what
the first has said of the KV. Its /metrics are the second's. It serves until SIGTERM. Other flags go
to both servers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

HOST = "127.0.0.1"
_VLLM = Path(sys.executable).with_name("vllm")
_OF_ANSWER = ("stream_options", "min_tokens")
"""What a request says of tokens that the prefill does not make."""


class Proxy:
    def __init__(self, prefill: str, decode: str) -> None:
        """URLs of the servers."""
        self._prefill = prefill
        self._decode = decode
        self._session: aiohttp.ClientSession

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 30)
        app.cleanup_ctx.append(self._opened)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        for path in ("/v1/completions", "/v1/chat/completions"):
            app.router.add_post(path, self._pass_on)
        return app

    async def _opened(self, _app: web.Application) -> AsyncIterator[None]:
        timeout = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as self._session:
            yield

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        return await _copied(request, await self._session.get(f"{self._decode}/metrics"))

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        named = {"X-Request-Id": request.headers.get("X-Request-Id", os.urandom(8).hex())}
        prefilled = await self._session.post(
            self._prefill + request.path, json=prefill_of(body), headers=named
        )
        if prefilled.status != 200:
            return await _copied(request, prefilled)
        body["kv_transfer_params"] = (await prefilled.json()).get("kv_transfer_params")
        decoded = await self._session.post(self._decode + request.path, json=body, headers=named)
        return await _copied(request, decoded)


def prefill_of(body: dict[str, Any]) -> dict[str, Any]:
    """The request that has its prompt computed, and kept for another server."""
    kept = {name: value for name, value in body.items() if name not in _OF_ANSWER}
    longest = "max_completion_tokens" if "max_completion_tokens" in body else "max_tokens"
    asked = {"do_remote_decode": True, "do_remote_prefill": False}
    return kept | {longest: 1, "stream": False, "kv_transfer_params": asked}


async def _copied(request: web.Request, source: aiohttp.ClientResponse) -> web.StreamResponse:
    answer = web.StreamResponse(status=source.status)
    answer.content_type = source.content_type
    await answer.prepare(request)
    async for part in source.content.iter_any():
        await answer.write(part)
    await answer.write_eof()
    return answer


def main() -> int:
    arguments, flags = _parser().parse_known_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    servers: list[subprocess.Popen[bytes]] = []
    try:
        urls = []
        for gpu, role in enumerate(("kv_producer", "kv_consumer")):
            port = _free_port()
            connector = json.dumps({"kv_connector": "NixlConnector", "kv_role": role})
            command = [
                _VLLM, "serve", arguments.model, "--host", HOST, "--port", str(port),
                "--kv-transfer-config", connector, *flags,
            ]  # fmt: skip
            own = {"CUDA_VISIBLE_DEVICES": str(gpu), "VLLM_NIXL_SIDE_CHANNEL_HOST": HOST}
            own["VLLM_NIXL_SIDE_CHANNEL_PORT"] = str(_free_port())
            servers.append(subprocess.Popen(command, env=os.environ | own))
            urls.append(f"http://{HOST}:{port}")
        return asyncio.run(_serve(Proxy(*urls), urls, servers, arguments.port))
    finally:
        for server in reversed(servers):
            server.terminate()
        for server in servers:
            server.wait()


async def _serve(
    proxy: Proxy, urls: list[str], servers: list[subprocess.Popen[bytes]], port: int
) -> int:
    async with aiohttp.ClientSession() as session:
        for url in urls:
            await _await(session, url, servers)
    runner = web.AppRunner(proxy.app())
    await runner.setup()
    await web.TCPSite(runner, HOST, port).start()
    while all(server.poll() is None for server in servers):
        await asyncio.sleep(1)
    return 1


async def _await(
    session: aiohttp.ClientSession, url: str, servers: list[subprocess.Popen[bytes]]
) -> None:
    while all(server.poll() is None for server in servers):
        try:
            async with session.get(f"{url}/health") as answer:
                if answer.status == 200:
                    return
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(1)
    sys.exit("a server ended before it was ready")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, required=True, help="the proxy's")
    parser.add_argument("model")
    return parser


if __name__ == "__main__":
    sys.exit(main())
