"""The connection bundle: where a session's Timekeeper is, and what admits to it."""

from __future__ import annotations

import re
from pathlib import Path

import tomllib

from warpserve.errors import ProtocolMismatch, SessionError
from warpserve.timekeeper import wire

_BUNDLE_KEYS = {
    "version",
    "requests",
    "updates",
    "token",
    "server_public_key",
    "client_public_key",
    "client_secret_key",
}
_LOCAL_BUNDLE = "connection.toml"


def read_bundle(path: Path) -> dict[str, str]:
    """Of a session's folder, or a file copied from there. Raises SessionError, ProtocolMismatch."""
    file = path / _LOCAL_BUNDLE if path.is_dir() else path
    try:
        bundle: dict[str, str] = tomllib.loads(file.read_text())
    except OSError as error:
        raise SessionError(
            f"cannot read {file} ({error.strerror}); is the session running, and is it yours?"
        ) from error
    except ValueError as error:
        raise SessionError(f"{file} is no connection bundle ({error}); copy it again") from error
    if bundle.get("version") != "1":
        raise ProtocolMismatch(
            f"{file} has version {bundle.get('version')}, this client reads version 1; use the "
            "same warpserve on both hosts"
        )
    if set(bundle) != _BUNDLE_KEYS:
        wrong = ", ".join(sorted(set(bundle) ^ _BUNDLE_KEYS))
        raise SessionError(f"{file} lacks keys or has unknown ones: {wrong}; copy it again")
    if not re.fullmatch(f"[0-9a-f]{{{2 * wire.TOKEN_BYTES}}}", str(bundle["token"])):
        raise SessionError(f"the token in {file} is damaged; copy it again")
    return bundle
