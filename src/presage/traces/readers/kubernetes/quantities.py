"""What pods ask for and nodes offer: Kubernetes quantities, effective requests, GPUs under their many names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from typing import TYPE_CHECKING, Any

from presage.traces.readers.kubernetes.objects import FieldError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from presage.traces.readers.kubernetes.objects import Fields

Resources = dict[str, Decimal]

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i)?)")
_SUFFIXES = {
    **{suffix: Decimal(10) ** (3 * power) for power, suffix in enumerate(["", "k", "M", "G", "T", "P", "E"])},
    **{suffix: Decimal(1024) ** power for power, suffix in enumerate(["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])},
    **{suffix: Decimal(10) ** (-3 * power) for power, suffix in enumerate(["", "m", "u", "n"])},
}
_MAX_QUANTITY_CHARS = 40
_MAX_QUANTITY = Decimal(2) ** 63

_WHOLE_GPUS = (
    "nvidia.com/gpu", "nvidia.com/gpu.shared", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe",
    "habana.ai/gaudi", "alibabacloud.com/gpu-count",
)  # fmt: skip
_MIG = re.compile(r"nvidia\.com/mig-((\d)g\.\d+gb.*)")
_MIG_SLICES = 7
_MIG_SLICES_A30 = 4
_A30_PROFILES = ("1g.6gb", "2g.12gb", "4g.24gb")
GPU_TYPE_TAGS = (
    "nvidia.com/gpu.product", "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator", "karpenter.k8s.aws/instance-gpu-name", "gpu.nvidia.com/class",
    "alibabacloud.com/gpu-card-model", "aliyun.accelerator/nvidia_name", "accelerator",
)  # fmt: skip
"""Labels that name a GPU model, the most exact first."""


@dataclass(frozen=True)
class Amounts:
    """Processors, memory and GPUs; None where nothing is said, which for GPUs means none."""

    cpus: float | None = None
    mem_bytes: int | None = None
    gpus: float = 0.0

    def __post_init__(self) -> None:
        if self.mem_bytes is not None and self.mem_bytes >= _MAX_QUANTITY:
            raise FieldError(f"{self.mem_bytes} bytes of memory are more than a machine can have")

    def times(self, count: int) -> Amounts:
        """Return the amounts of `count` such pods together."""
        return Amounts(
            None if self.cpus is None else self.cpus * count,
            None if self.mem_bytes is None else self.mem_bytes * count,
            self.gpus * count,
        )

    @classmethod
    def total(cls, parts: Sequence[Amounts]) -> Amounts:
        """Return the sum of `parts`; what none of them says stays unsaid."""
        cpus = [part.cpus for part in parts if part.cpus is not None]
        memory = [part.mem_bytes for part in parts if part.mem_bytes is not None]
        return cls(sum(cpus) if cpus else None, sum(memory) if memory else None, sum(part.gpus for part in parts))


def quantity(value: Any) -> Decimal:
    """Return a quantity such as `250m`, `1.5`, `2Gi`, `500M`, `1e3` or 128974848. Raises FieldError."""
    text = value.strip() if isinstance(value, str) else repr(value) if _is_number(value) else ""
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_QUANTITY_CHARS else None
    if match is None:
        raise FieldError(f"{str(value)[:40]!r} is not a quantity")
    number, exponent, suffix = match.groups()
    try:
        amount = Decimal(number + (exponent or "")) * _SUFFIXES[suffix or ""]
    except DecimalException:
        raise FieldError(f"{text!r} is not a quantity") from None
    if not 0 <= amount < _MAX_QUANTITY:
        raise FieldError(f"{text!r} is no amount that a machine can have")
    return amount


def quantities(fields: Fields) -> Resources:
    """Return a resource list such as `capacity` or `requests`."""
    return {name: quantity(fields.raw(name)) for name in fields.names() if fields.raw(name) is not None}


def requests(spec: Fields) -> Resources:
    """Return what the scheduler reserves for a pod with this spec.

    That is the larger of what its containers need together and what any step of its initialisation needs, plus
    the overhead of its runtime. Sidecars (init containers that keep running) count in both. A request for the
    pod as a whole replaces its containers' sum; a limit without a request is the request.
    """
    running = _total(_asked(container) for container in spec.items("containers"))
    sidecars: Resources = {}
    peak: Resources = {}
    for container in spec.items("initContainers"):
        own = _asked(container)
        if container.text("restartPolicy") == "Always":
            sidecars = _total([sidecars, own])
            peak = _larger(peak, sidecars)
        else:
            peak = _larger(peak, _total([sidecars, own]))
    needed = _larger(_total([running, sidecars]), peak) | _asked(spec)
    return _total([needed, quantities(spec.child("overhead"))])


def amounts(resources: Resources, tags: Mapping[str, str] | None = None) -> Amounts:
    """Return processors, memory and GPUs of a resource list; `tags` are the pod's labels and annotations."""
    cpus = resources.get("cpu")
    memory = resources.get("memory")
    gpus = sum((resources.get(name, Decimal()) for name in _WHOLE_GPUS), Decimal())
    gpus += sum((count * _mig_share(name) for name, count in resources.items()), Decimal())
    return Amounts(
        cpus=None if cpus is None else float(cpus),
        mem_bytes=None if memory is None else int(memory.to_integral_value(rounding="ROUND_CEILING")),
        gpus=float(gpus or _tagged_gpus(tags or {})),
    )


def gpu_types(spec: Fields, tags: Mapping[str, str], resources: Resources) -> str | None:
    """Return the GPU models that a pod accepts, joined by `|`: of its tags, node selector, affinity, or MIG."""
    selector = spec.tags("nodeSelector")
    affinity = _required_values(spec)
    for tag in GPU_TYPE_TAGS:
        if tag in selector:
            return selector[tag]
        if tag in affinity:
            return "|".join(affinity[tag])
    named = tags.get("alibabacloud.com/gpu-card-model")
    if named:
        return named
    profiles = [match[1] for name in resources if (match := _MIG.fullmatch(name))]
    return f"mig-{profiles[0]}" if profiles else None


def gpu_type_of(labels: Mapping[str, str]) -> str | None:
    """Return the GPU model that a node's labels name."""
    return next((labels[tag] for tag in GPU_TYPE_TAGS if labels.get(tag)), None)


def _asked(holder: Fields) -> Resources:
    resources = holder.child("resources")
    return quantities(resources.child("limits")) | quantities(resources.child("requests"))


def _required_values(spec: Fields) -> dict[str, list[str]]:
    required = spec.child("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    values: dict[str, list[str]] = {}
    for term in required.items("nodeSelectorTerms"):
        for expression in term.items("matchExpressions"):
            key = expression.text("key")
            if key and expression.text("operator") == "In":
                known = values.setdefault(key, [])
                known.extend(value for value in expression.texts("values") if value not in known)
    return values


def _tagged_gpus(tags: Mapping[str, str]) -> Decimal:
    """Return GPUs that are asked for by annotations: Alibaba's GPU sharing, KAI's and Run:ai's fractions."""
    count = tags.get("alibabacloud.com/gpu-count")
    milli = tags.get("alibabacloud.com/gpu-milli")
    if count is not None or milli is not None:
        whole = quantity(count) if count is not None else Decimal(1)
        return quantity(milli) / 1000 if milli is not None and whole == 1 else whole
    fraction = tags.get("gpu-fraction")
    return quantity(fraction) * quantity(tags.get("gpu-fraction-num-devices", "1")) if fraction else Decimal()


def _mig_share(resource: str) -> Decimal:
    match = _MIG.fullmatch(resource)
    if match is None:
        return Decimal()
    slices = _MIG_SLICES_A30 if match[1].startswith(_A30_PROFILES) else _MIG_SLICES
    return Decimal(match[2]) / slices


def _total(parts: Iterable[Resources]) -> Resources:
    total: Resources = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, Decimal()) + amount
    return total


def _larger(one: Resources, other: Resources) -> Resources:
    return {name: max(one.get(name, Decimal()), other.get(name, Decimal())) for name in one | other}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
