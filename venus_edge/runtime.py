"""Settings -> a ready Agent: the one file that knows every part.

In: Settings. Out: a Runtime whose `agent` plays runs; what was opened for it is closed when it is left.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Protocol

from venus_edge import demo as demo_files
from venus_edge import guards, hub, registry
from venus_edge.agent import Agent, Config
from venus_edge.engine import Engine, Sampling
from venus_edge.errors import CorpusError, UsageError
from venus_edge.events import RunStarted
from venus_edge.registry import ModelSpec
from venus_edge.settings import Settings, check

Note = Callable[[str], None]
