"""The GAN of `ctgan` with numbers straightened: it draws normal scores, the log's own quantiles do the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from presage.synthesizers._rows import Rows
from presage.synthesizers.ctgan import Ctgan

if TYPE_CHECKING:
    import numpy as np

    from presage.synthesizers.columns import JobTable


class CopulaGan(Ctgan):
    """Draws rows that a critic could not tell from the log's, their numbers straightened."""

    name = "copula-gan"
    straight: ClassVar[bool] = True

    def _rows_of(self, table: JobTable, rng: np.random.Generator) -> Rows:
        return Rows.straightened(self.columns)
