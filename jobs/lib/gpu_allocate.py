"""An allocation on each GPU that this process may see: whether memory can be had, written and read.

gpu-health and the example find-bad-nodes run it: python3 gpu_allocate.py MEGABYTES=1024. Exit codes: 0 fine, 2 not.
"""

from __future__ import annotations

import ctypes

import shelf
from shelf import Broken, Settings


def main(settings: Settings) -> int:
    """Take memory on each visible card, fill it and read it back, by the driver alone. Raises Broken, naming the card.

    It is run in a process of its own: a sick card makes it hang.
    """
    megabytes = settings.number("MEGABYTES")
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise Broken("libcuda.so.1 is not on this node: it comes with NVIDIA's driver") from None
    count, device = ctypes.c_int(), ctypes.c_int()
    _call(cuda, "cuInit", 0)
    _call(cuda, "cuDeviceGetCount", ctypes.byref(count))
    for index in range(count.value):
        context, memory = ctypes.c_void_p(), ctypes.c_uint64()
        size = ctypes.c_size_t(megabytes << 20)
        _call(cuda, "cuDeviceGet", ctypes.byref(device), index, card=index)
        _call(cuda, "cuCtxCreate_v2", ctypes.byref(context), 0, device, card=index)
        _call(cuda, "cuMemAlloc_v2", ctypes.byref(memory), size, card=index)
        _call(cuda, "cuMemsetD8_v2", memory, ctypes.c_ubyte(0xA5), size, card=index)
        back = ctypes.create_string_buffer(1 << 20)
        for offset in (0, size.value - len(back)):
            _call(cuda, "cuMemcpyDtoH_v2", back, ctypes.c_uint64(memory.value + offset), len(back), card=index)
            if back.raw != b"\xa5" * len(back):
                raise Broken(f"card {index}: what was written is not what is read")
        _call(cuda, "cuMemFree_v2", memory, card=index)
        _call(cuda, "cuCtxDestroy_v2", context, card=index)
    print(f"CUDA: {megabytes} MiB taken, written and read on {shelf.plural(count.value, 'GPU')}")
    return shelf.FINE


def _call(cuda: ctypes.CDLL, name: str, *arguments: object, card: int | None = None) -> None:
    code = getattr(cuda, name)(*arguments)
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        words = text.value.decode() if text.value else "unknown"
        raise Broken(f"{'' if card is None else f'card {card}: '}{name}: {words} ({code})")


if __name__ == "__main__":
    shelf.run(main)
