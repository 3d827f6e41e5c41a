"""WHAT llama.cpp REACHES BESIDE THE CPU: its backends and cards, from its own device API. Out: an offload.Build.

The Python package has no names for these functions of ggml, which lies beside llama.cpp; where it does not, nothing is
told. A GPU that this build cannot use shows by the signs of its driver (`sign`); nothing is started for that.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from venus_edge.engine import library
from venus_edge.engine.offload import Build, Card, Sign

_GPU, _IGPU = 1, 2  # ggml_backend_dev_type
_DRIVERS = (  # a sign of a device -> its maker, the option of llama.cpp's build that uses it
    ("/proc/driver/nvidia/version", "NVIDIA", "CUDA"),
    ("/dev/nvidia0", "NVIDIA", "CUDA"),
    ("/dev/dxg", "host's", "CUDA"),
    ("C:/Windows/System32/nvcuda.dll", "NVIDIA", "CUDA"),
    ("/dev/kfd", "AMD", "VULKAN"),
    ("/dev/dri/renderD128", "AMD or Intel", "VULKAN"),
)


def build() -> Build:
    """The backends and cards now. Raises EngineError if llama.cpp cannot be loaded."""
    lib, api = library.load(), _api()
    info = lib.llama_print_system_info().decode("utf-8", "replace")
    if api is None:
        return Build((), (), info)
    registries = [api.ggml_backend_reg_get(index) for index in range(api.ggml_backend_reg_count())]
    names = tuple(_text(api.ggml_backend_reg_name(registry)) for registry in registries)
    return Build(names, used(tuple(_cards(api))), info)


def used(cards: tuple[Card, ...]) -> tuple[Card, ...]:
    """Of all cards those that llama.cpp gives layers to: integrated ones only where there are no others."""
    own = tuple(card for card in cards if not card.integrated)
    return own or tuple(card for card in cards if card.backend == cards[0].backend)


def sign() -> Sign | None:
    """A sign of a GPU in this machine, whether or not llama.cpp can use it."""
    if sys.platform == "darwin" and platform.machine() == "arm64":
        return Sign("Apple", "METAL")
    return next((Sign(maker, option) for path, maker, option in _DRIVERS if Path(path).exists()), None)


def _cards(api: Any) -> Iterator[Card]:
    for index in range(api.ggml_backend_dev_count()):
        device = api.ggml_backend_dev_get(index)
        kind = int(api.ggml_backend_dev_type(device))
        if kind not in (_GPU, _IGPU):
            continue
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        api.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
        backend = _text(api.ggml_backend_reg_name(api.ggml_backend_dev_backend_reg(device)))
        name, description = api.ggml_backend_dev_name(device), api.ggml_backend_dev_description(device)
        yield Card(_text(name), backend, _text(description), total.value, free.value, kind == _IGPU)


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "replace")


@cache
def _api() -> Any:
    """ggml's device functions, typed; None where its library is not found beside llama.cpp's."""
    folder = Path(library.load().__file__).parent / "lib"
    names = ("libggml.so", "libggml-base.so", "libggml.dylib", "libggml-base.dylib", "ggml.dll", "ggml-base.dll")
    places: list[Any] = [ctypes.CDLL(str(folder / name)) for name in names if (folder / name).exists()]
    size, handle, text = ctypes.POINTER(ctypes.c_size_t), ctypes.c_void_p, ctypes.c_char_p
    api = SimpleNamespace()
    for name, result, arguments in (
        ("dev_count", ctypes.c_size_t, []),
        ("dev_get", handle, [ctypes.c_size_t]),
        ("dev_type", ctypes.c_int, [handle]),
        ("dev_name", text, [handle]),
        ("dev_description", text, [handle]),
        ("dev_memory", None, [handle, size, size]),
        ("dev_backend_reg", handle, [handle]),
        ("reg_count", ctypes.c_size_t, []),
        ("reg_get", handle, [ctypes.c_size_t]),
        ("reg_name", text, [handle]),
    ):
        whole = f"ggml_backend_{name}"  # the half of them is in each library
        function = next((getattr(place, whole) for place in places if hasattr(place, whole)), None)
        if function is None:
            return None
        function.restype, function.argtypes = result, arguments
        setattr(api, whole, function)
    return api
