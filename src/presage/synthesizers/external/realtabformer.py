"""REaLTabFormer, the original."""

from __future__ import annotations

from typing import Any, ClassVar

from presage.synthesizers.external._base import External


class OriginalRealTabFormer(External):
    """REaLTabFormer of its authors' library; rows do not know of each other."""

    name: ClassVar[str] = "realtabformer"
    package: ClassVar[str] = "realtabformer"
    extra: ClassVar[str] = "realtabformer"

    def _fit(self, frame: Any, seed: int, folder: str) -> Any:
        from realtabformer import REaLTabFormer

        library = REaLTabFormer(
            model_type="tabular",
            epochs=self.settings.epochs,
            checkpoints_dir=f"{folder}/checkpoints",
            samples_save_dir=f"{folder}/samples",
            random_state=seed + 1,  # 0 means to it that there is none
        )
        # Without its critic, which draws rows again and again to see whether they were learned by heart.
        library.fit(frame, device="cpu", n_critic=0)
        return library

    def _rows(self, library: Any, count: int) -> Any:
        return library.sample(n_samples=count, device="cpu")
