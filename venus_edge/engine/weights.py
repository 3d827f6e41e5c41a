"""A GGUF FILE, LOADED: its weights in memory and what it says of itself. In: a path. Out: a handle and metadata."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

from venus_edge.engine import library, modelfile
from venus_edge.engine.interrupt import Interrupts


def extra_layouts(lib: Any) -> bool:
    """Whether llama.cpp may copy weights into layouts of its own for this CPU.

    gcc up to 12 drops the tile settings of ggml's AMX kernels: the first batch through quantized weights ends the
    process (llama.cpp#20824). They come with the other layouts.
    """
    return b"AMX_INT8 = 1" not in lib.llama_print_system_info()


class Weights:
    """A loaded file. Raises ModelError if llama.cpp will not have it. `vocab_only` leaves the tensors out; `main_gpu`
    is the one card that gets layers, `tensor_split` the share of each. `told` is what llama.cpp said of places."""

    def __init__(
        self,
        path: Path,
        gpu_layers: int,
        vocab_only: bool,
        interrupts: Interrupts,
        main_gpu: int | None = None,
        tensor_split: tuple[float, ...] = (),
    ) -> None:
        self.lib = library.load()
        library.listen()
        params = self.lib.llama_model_default_params()
        params.n_gpu_layers = gpu_layers
        params.vocab_only = vocab_only
        params.use_extra_bufts = extra_layouts(self.lib)
        if main_gpu is not None:
            params.split_mode, params.main_gpu = self.lib.LLAMA_SPLIT_MODE_NONE, main_gpu
        if not gpu_layers:  # a card that is left in would compute large batches, and keep the CPU from its own layouts
            params.split_mode, params.main_gpu = self.lib.LLAMA_SPLIT_MODE_NONE, -1
        if tensor_split:  # read as long as there may be devices, and copied
            shares = (ctypes.c_float * self.lib.llama_max_devices())(*tensor_split)
            params.tensor_split = ctypes.cast(shares, ctypes.POINTER(ctypes.c_float))
        going_on = self.lib.llama_progress_callback(lambda done, _: not interrupts.wanted)
        params.progress_callback = going_on
        with interrupts.held():
            self.pointer = self.lib.llama_model_load_from_file(os.fsencode(path), params)
        if not self.pointer:
            raise modelfile.failed(path, library.complaints.first)
        self.told = tuple(library.complaints.told)
        kind = self.lib.llama_vocab_type(self.lib.llama_model_get_vocab(self.pointer))
        if (
            kind == self.lib.LLAMA_VOCAB_TYPE_NONE
        ):  # llama.cpp would end the process at the first question about a token
            self.close()
            raise modelfile.without_tokenizer(path)

    @property
    def metadata(self) -> dict[str, str]:
        lib, pointer = self.lib, self.pointer

        def read(what: Any, index: int) -> str:
            return library.text_of(lambda buffer, size: what(pointer, index, buffer, size)).decode("utf-8", "replace")

        return {
            read(lib.llama_model_meta_key_by_index, i): read(lib.llama_model_meta_val_str_by_index, i)
            for i in range(lib.llama_model_meta_count(pointer))
        }

    @property
    def description(self) -> str:
        """What llama.cpp calls the model: architecture, size, quantization."""
        return library.text_of(lambda buffer, size: self.lib.llama_model_desc(self.pointer, buffer, size)).decode()

    @property
    def chat_template(self) -> str:
        template = self.lib.llama_model_chat_template(self.pointer, None)
        return template.decode("utf-8", "replace") if template else ""

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return int(self.lib.llama_model_size(self.pointer))

    @property
    def n_ctx_train(self) -> int:
        """The window that the model was trained for, in tokens."""
        return int(self.lib.llama_model_n_ctx_train(self.pointer))

    @property
    def rolls_back(self) -> bool:
        """Whether single tokens can be taken out of its cache again: not where that is a state that was updated."""
        lib, pointer = self.lib, self.pointer
        return not (lib.llama_model_is_recurrent(pointer) or lib.llama_model_is_hybrid(pointer))

    def close(self) -> None:
        if self.pointer:
            self.lib.llama_model_free(self.pointer)
            self.pointer = None
