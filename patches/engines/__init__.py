"""Engine environments: the real vLLM and SGLang, each in a virtual environment of its own.

They lie in the user's cache folder, ``$WARPSERVE_CACHE`` or else ``~/.cache/warpserve``, below
``engines/``. An environment is there once its record is: ``install`` writes that last.
"""

from warpserve.patches.engines.install import install, remove
from warpserve.patches.engines.requirement import EngineError, EngineRequirement
from warpserve.patches.engines.store import Engine, EngineStore

__all__ = ["Engine", "EngineError", "EngineRequirement", "EngineStore", "install", "remove"]
