"""What NVML says of the first link of the first GPU: state, remote end, P2P, version; as JSON."""

import ctypes
import json

nvml = ctypes.CDLL("libnvidia-ml.so.1")
P2P_SUPPORTED = 0


def number(call, *arguments):
    value = ctypes.c_uint()
    assert call(device, 0, *arguments, ctypes.byref(value)) == 0
    return value.value


assert nvml.nvmlInit_v2() == 0
device = ctypes.c_void_p()
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
print(
    json.dumps(
        [
            number(nvml.nvmlDeviceGetNvLinkState),
            number(nvml.nvmlDeviceGetNvLinkRemoteDeviceType),
            number(nvml.nvmlDeviceGetNvLinkCapability, P2P_SUPPORTED),
            number(nvml.nvmlDeviceGetNvLinkVersion),
        ]
    )
)
