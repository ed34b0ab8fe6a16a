"""A scheduler with the admission that vLLM had before 0.20: all of a prompt must fit in all layers.

``--scheduler-cls old_admission.OldAdmission``. Under a model most of whose layers keep a window
only, a request that the cache could serve waits for ever (vllm-project/vllm issue 39734).
"""

from vllm.v1.core.sched.async_scheduler import AsyncScheduler

CAP = "max_admission_blocks_per_request"  # with an underscore in 0.24, not there in 0.19


class OldAdmission(AsyncScheduler):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for manager in self.kv_cache_manager.coordinator.single_type_managers:
            for name in [each for each in vars(manager) if each.endswith(CAP)]:
                setattr(manager, name, None)
