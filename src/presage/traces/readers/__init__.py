"""Readers of job logs, one file per format, found by name or recognised by looking at the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.errors import UnknownFormatError
from presage.registry import Registry, Spec
from presage.traces.builder import ReadOptions, TraceBuilder
from presage.traces.readers._base import LIKELY, NO, POSSIBLE, SURE, Reader
from presage.traces.readers._cells import Cells, delimited, json_document, json_lines, records
from presage.traces.source import Source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from presage.traces.trace import Trace

__all__ = [
    "LIKELY",
    "NO",
    "POSSIBLE",
    "READERS",
    "SURE",
    "Cells",
    "ReadOptions",
    "Reader",
    "delimited",
    "detect",
    "json_document",
    "json_lines",
    "read_sources",
    "read_trace",
    "records",
]

_HERE = "presage.traces.readers"

READERS: Registry[type[Reader]] = Registry(
    "trace format",
    "presage.readers",
    [
        Spec("parquet", f"{_HERE}.canonical:ParquetReader", "a trace that Presage wrote"),
        Spec("csv", f"{_HERE}.canonical:CsvReader", "a job table with canonical column names"),
        Spec("jsonl", f"{_HERE}.json_records:JsonRecordsReader", "JSON lines: records or events of jobs"),
        Spec("alcf", f"{_HERE}.alcf:AlcfReader", "Argonne: DIM_JOB_COMPOSITE, Theta columns, excerpts"),
        Spec("yarn", f"{_HERE}.yarn:YarnReader", "YARN ResourceManager: /ws/v1/cluster/apps"),
        Spec("jhist", f"{_HERE}.jhist:JhistReader", "Hadoop JobHistory of a MapReduce job"),
        Spec("google-2011-jobs", f"{_HERE}.google_2011:Google2011JobsReader", "Google 2011: job events"),
        Spec("google-2011-tasks", f"{_HERE}.google_2011:Google2011TasksReader", "Google 2011: task events"),
        Spec("sacct", f"{_HERE}.slurm.sacct:SacctReader", "Slurm: sacct text of any fields and shape"),
        Spec("rumen", f"{_HERE}.rumen:RumenReader", "Rumen: job traces and topologies of Hadoop"),
        Spec("sacct-json", f"{_HERE}.slurm.sacct_json:SacctJsonReader", "Slurm: sacct --json"),
        Spec("squeue", f"{_HERE}.slurm.squeue:SqueueReader", "Slurm: squeue text, the queue at one instant"),
        Spec("squeue-json", f"{_HERE}.slurm.squeue_json:SqueueJsonReader", "Slurm: squeue --json"),
        Spec("borg-2019", f"{_HERE}.borg_2019:Borg2019Reader", "Google Borg 2019: instance events"),
        Spec("swim", f"{_HERE}.swim:SwimReader", "SWIM: Hadoop jobs of Facebook"),
        Spec("batsim", f"{_HERE}.batsim:BatsimReader", "workloads of the Batsim simulator"),
        Spec("lsf", f"{_HERE}.lsf:LsfReader", "LSF: lsb.acct"),
        Spec("surf-lisa", f"{_HERE}.surf_lisa:SurfLisaReader", "SURF Lisa 2022: OpenDC task table (Parquet)"),
        Spec("slurmdbd", f"{_HERE}.slurm.slurmdbd:SlurmdbdReader", "Slurm: database job table; MIT SuperCloud"),
        Spec("slurm-sim", f"{_HERE}.slurm.slurm_sim:SlurmSimReader", "Slurm: event files of the UB simulator"),
        Spec("nrel-eagle", f"{_HERE}.slurm.nrel_eagle:NrelEagleReader", "Slurm: NREL Eagle, published jobs"),
        Spec("swf", f"{_HERE}.swf:SwfReader", "Standard Workload Format, and its 19 to 21 column dialects"),
        Spec("kubernetes", f"{_HERE}.kubernetes:KubernetesReader", "kubectl get pods,jobs,events,nodes -o json"),
        Spec("openb", f"{_HERE}.openb:OpenbReader", "Alibaba GPU trace v2023: lists of pods and nodes"),
        Spec("philly", f"{_HERE}.philly:PhillyReader", "Microsoft Philly 2017: jobs with attempts, machines"),
        Spec("philly-flat", f"{_HERE}.philly:PhillyFlatReader", "Microsoft Philly 2017, flattened to one CSV"),
        Spec("helios", f"{_HERE}.helios:HeliosReader", "SenseTime Helios 2020: job log, GPU counts"),
        Spec("acme", f"{_HERE}.acme:AcmeReader", "Shanghai AI Lab Acme 2023: Seren and Kalos"),
        Spec("gavel", f"{_HERE}.gavel:GavelReader", "traces of the Gavel and Shockwave schedulers"),
        Spec("alibaba-2017", f"{_HERE}.alibaba_2017:Alibaba2017Reader", "Alibaba cluster trace 2017: batch tasks"),
        Spec("alibaba-2025", f"{_HERE}.alibaba_2025:Alibaba2025Reader", "Alibaba GPU trace v2025: services"),
        Spec("alibaba-2026", f"{_HERE}.alibaba_2026:Alibaba2026Reader", "Alibaba spot-GPU trace 2026"),
    ],
)


def detect(source: Source) -> str:
    """Return the name of the format of `source`. Raises UnknownFormatError if none or several fit equally."""
    scores = {name: reader().match(source.head) for name, reader in READERS.load_all().items()}
    best = max(scores.values())
    winners = [name for name, score in scores.items() if score == best]
    if best == NO:
        kind = "a binary file of no known kind" if source.head.is_binary else "in no known log format"
        raise UnknownFormatError(
            f"{source.name} is {kind}",
            expected="a job log; `presage trace formats` lists the formats",
            remedy="Say which with --format",
        )
    if len(winners) > 1:
        raise UnknownFormatError(
            f"{source.name} could be {' or '.join(winners)}", remedy="Say which with --format"
        )
    return winners[0]


def read_sources(sources: Sequence[Source], into: TraceBuilder, format: str | None = None) -> None:  # noqa: A002
    """Recognise the sources (or take them all as `format`) and pour them into `into`."""
    by_format: dict[str, list[Source]] = {}
    for source in sources:
        source.head  # noqa: B018  (fails early and clearly for files that are missing or empty)
        by_format.setdefault(format or detect(source), []).append(source)
    for name, group in by_format.items():
        READERS.get(name)().read(group, into)


def read_trace(
    *paths: str | Path,
    format: str | None = None,  # noqa: A002
    options: ReadOptions | None = None,
) -> Trace:
    """Read one or more files ("-" is standard input) that belong together as one trace.

    Raises a `presage.errors.InputError` if a file cannot be used at all; rows that cannot be read are in the
    trace's `rejects`.
    """
    into = TraceBuilder(options)
    read_sources([Source(path) for path in paths], into, format)
    return into.build()
