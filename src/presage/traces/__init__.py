"""What happened: the job table, readers and writers of logs, cleaning, statistics, workload models."""

from __future__ import annotations

from presage.traces.builder import ReadOptions, TraceBuilder
from presage.traces.manifest import CleaningStep, Machine, Manifest, SourceFile
from presage.traces.readers import READERS, Reader, detect, read_trace
from presage.traces.schema import SCHEMA_VERSION, Outcome
from presage.traces.source import Head, Source
from presage.traces.trace import Trace

__all__ = [
    "READERS",
    "SCHEMA_VERSION",
    "CleaningStep",
    "Head",
    "Machine",
    "Manifest",
    "Outcome",
    "ReadOptions",
    "Reader",
    "Source",
    "SourceFile",
    "Trace",
    "TraceBuilder",
    "detect",
    "read_trace",
]
