"""The errors of venus-edge, drawn.

    VenusError                 one line: what is wrong and what to do next; the command line prints it and exits
    ├── UsageError             the command or a setting is wrong (exit 2)
    ├── ModelError             a model file is missing, damaged or not what it should be
    │   └── ConversionError    a checkpoint cannot be converted right
    ├── EngineError            llama.cpp cannot do it: memory, context, decoding
    │   └── ContextFull        the prompt leaves no room to think and answer
    ├── CorpusError            a corpus or index is missing, damaged or not one
    └── StorageError           a directory cannot be read or written, the disk is full

What the *model* can mend is never one of these: it is text in a tool response (`values.Failure`).
What is a bug is left alone: it ends in a traceback.
"""

from __future__ import annotations


class VenusError(Exception):
    """Something that the person in front of the machine can mend. `str()` is one line."""


class UsageError(VenusError):
    """The command, a flag or a setting is wrong."""


class ModelError(VenusError):
    """A model file is missing, damaged, or not what it should be."""


class ConversionError(ModelError):
    """A checkpoint cannot be converted right, and so is not converted at all."""


class EngineError(VenusError):
    """llama.cpp cannot do what was asked: memory, context, decoding."""


class ContextFull(EngineError):
    """The prompt leaves no room to think and answer in the context window."""


class CorpusError(VenusError):
    """A corpus or its index is missing, damaged, or not one."""


class StorageError(VenusError):
    """A directory cannot be read or written, or the disk is full."""
