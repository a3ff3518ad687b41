"""The row models of the Synthetic Data Vault (sdv 2): CTGAN, TVAE, CopulaGAN and the Gaussian copula."""

from __future__ import annotations

from typing import Any, ClassVar

from presage.synthesizers.columns import NUMBERS
from presage.synthesizers.external._base import IN_ONE_CALL, External

_TABLE = "jobs"


class _Sdv(External):
    package: ClassVar[str] = "sdv"
    extra: ClassVar[str] = "sdv"
    notice: ClassVar[str] = (
        "sdv is under the Business Source License 1.1, which is no open-source licence: it forbids, among other"
        f" things, to offer synthetic data as a commercial service. Read it before you go on. {IN_ONE_CALL}"
    )
    synthesizer: ClassVar[str]
    """The class of `sdv.single_table`."""
    learns_in_epochs: ClassVar[bool] = True

    def _fit(self, frame: Any, seed: int, folder: str) -> Any:
        from sdv import single_table
        from sdv.metadata import Metadata

        columns = {name: {"sdtype": "numerical" if name in NUMBERS else "categorical"} for name in frame.columns}
        metadata = Metadata.load_from_dict({"tables": {_TABLE: {"columns": columns}}, "relationships": []})
        chosen = {"epochs": self.settings.epochs, "enable_gpu": False} if self.learns_in_epochs else {}
        library = getattr(single_table, self.synthesizer)(metadata, **chosen)
        library.fit({_TABLE: frame})
        return library

    def _rows(self, library: Any, count: int) -> Any:
        drawn = library.sample(num_rows=count)
        return drawn[_TABLE] if isinstance(drawn, dict) else drawn


class SdvCtgan(_Sdv):
    """CTGAN of the sdv library."""

    name: ClassVar[str] = "sdv-ctgan"
    synthesizer: ClassVar[str] = "CTGANSynthesizer"


class SdvTvae(_Sdv):
    """TVAE of the sdv library."""

    name: ClassVar[str] = "sdv-tvae"
    synthesizer: ClassVar[str] = "TVAESynthesizer"


class SdvCopulaGan(_Sdv):
    """CopulaGAN of the sdv library."""

    name: ClassVar[str] = "sdv-copula-gan"
    synthesizer: ClassVar[str] = "CopulaGANSynthesizer"


class SdvGaussianCopula(_Sdv):
    """Gaussian copula of the sdv library."""

    name: ClassVar[str] = "sdv-gaussian-copula"
    synthesizer: ClassVar[str] = "GaussianCopulaSynthesizer"
    learns_in_epochs: ClassVar[bool] = False
