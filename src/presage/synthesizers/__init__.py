"""Traces that never happened, and how true they are."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from presage.errors import MissingDependencyError, PresageError
from presage.registry import Registry, Spec
from presage.synthesizers._base import PRIVATE_KINDS, Privacy, Synthesizer, Training
from presage.synthesizers.columns import Columns, JobTable
from presage.synthesizers.sampling import Request, sample

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "PRIVATE_KINDS",
    "SYNTHESIZERS",
    "Columns",
    "JobTable",
    "Privacy",
    "Request",
    "Synthesizer",
    "Training",
    "find_synthesizer",
    "load_synthesizer",
    "sample",
]

_HERE = "presage.synthesizers"

SYNTHESIZERS: Registry[type[Synthesizer]] = Registry(
    "synthesizer",
    "presage.synthesizers",
    [
        Spec("sequence", f"{_HERE}.sequence:SequenceModel", "users' sessions, one job after the other", "torch"),
        Spec("lublin", f"{_HERE}.lublin:FittedLublin", "Lublin and Feitelson's model (2003), fitted to the log"),
        Spec("copula", f"{_HERE}.gaussian_copula:GaussianCopula", "Gaussian copula of all columns"),
        Spec("ctgan", f"{_HERE}.ctgan:Ctgan", "conditional GAN of rows, after Xu et al. (2019)", "torch"),
        Spec("tvae", f"{_HERE}.tvae:Tvae", "variational autoencoder of rows, after Xu et al. (2019)", "torch"),
        Spec(
            "copula-gan",
            f"{_HERE}.copula_gan:CopulaGan",
            "GAN of rows whose numbers a copula straightened",
            "torch",
        ),
        Spec(
            "row-transformer",
            f"{_HERE}.row_transformer:RowTransformer",
            "rows as words, after REaLTabFormer (2023)",
            "torch",
        ),
        Spec("diffusion", f"{_HERE}.diffusion:Diffusion", "rows out of noise, after FinDiff (2023)", "torch"),
        Spec("sdv-ctgan", f"{_HERE}.external.sdv:SdvCtgan", "CTGAN of the sdv library", "sdv"),
        Spec("sdv-tvae", f"{_HERE}.external.sdv:SdvTvae", "TVAE of the sdv library", "sdv"),
        Spec("sdv-copula-gan", f"{_HERE}.external.sdv:SdvCopulaGan", "CopulaGAN of the sdv library", "sdv"),
        Spec(
            "sdv-gaussian-copula",
            f"{_HERE}.external.sdv:SdvGaussianCopula",
            "Gaussian copula of the sdv library",
            "sdv",
        ),
        Spec(
            "realtabformer",
            f"{_HERE}.external.realtabformer:OriginalRealTabFormer",
            "REaLTabFormer of its authors' library",
            "realtabformer",
        ),
        Spec("mostlyai", f"{_HERE}.external.mostlyai:MostlyAi", "TabularARGN of MOSTLY AI's library", "mostlyai"),
    ],
)


def find_synthesizer(name: str) -> type[Synthesizer]:
    """Return the kind `name`, ready to be trained.

    Raises UnknownNameError with the closest match, MissingDependencyError if a package that it needs is missing.
    """
    extra = SYNTHESIZERS.spec(name).extra
    if extra and find_spec(extra) is None:
        raise MissingDependencyError(extra, extra=extra, purpose=f"The synthesizer {name!r}")
    return SYNTHESIZERS.get(name)


def load_synthesizer(folder: str | Path) -> Synthesizer:
    """Return the trained synthesizer in `folder`, of whatever kind.

    Raises InputError if there is none, and what `find_synthesizer` raises if it cannot be used here.
    """
    from presage.synthesizers._files import read_head

    name = read_head(folder)["kind"]
    try:
        kind = SYNTHESIZERS.get(name)  # some kinds draw without what they need to learn
    except PresageError:
        kind = find_synthesizer(name)
    return kind.load(folder)
