"""``--scheduler-cls skipped_dummies.SkippedDummies``: a rank without requests takes no step.

The fault that vllm-project/vllm pull requests 51984 and 53578 are about: the others wait for it in
the experts' all-to-all.
"""

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.engine.core import DPEngineCoreProc


def take_no_step(_core):
    pass


DPEngineCoreProc.execute_dummy_batch = take_no_step


class SkippedDummies(AsyncScheduler):
    """As it is: what counts is that the engine core imports this module."""
