from __future__ import annotations

from pathlib import Path

import pytest

from presage.errors import UnknownFormatError
from presage.traces import Source, detect, read_trace

# Files that are no job logs, and why no reader takes them.
NO_LOGS = {
    "README.md": "prose",
    "SHA256SUMS": "checksums",
    "azure-2023-llm-code.csv.gz": "requests to a language model, not jobs",
    "azure-2023-llm-conv.csv.gz": "requests to a language model, not jobs",
    "hadoop-samples.tar.gz": "an archive; its members are read one by one elsewhere",
    "openb_node_list_gpu_node.yaml.gz": "the same nodes as the CSV, as YAML",
    "CERIT-wagap-2013.swf.machines": "a table of machine groups of the Alea simulator",
}


def real_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.shared_data
def test_every_real_file_is_recognised_or_known_to_be_no_log(shared_data: Path) -> None:
    unrecognised = set()
    for path in real_files(shared_data):
        try:
            detect(Source(path))
        except UnknownFormatError:
            unrecognised.add(path.name)
    assert unrecognised == set(NO_LOGS)


@pytest.mark.shared_data
def test_every_real_log_is_read_without_a_reject(shared_data: Path) -> None:
    rejected = {}
    for path in real_files(shared_data):
        if path.name not in NO_LOGS:
            trace = read_trace(path)
            if len(trace.rejects):
                rejected[path.name] = trace.rejects.row(0)
    assert rejected == {}
