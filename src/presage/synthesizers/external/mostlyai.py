"""TabularARGN, the engine of MOSTLY AI."""

from __future__ import annotations

from typing import Any, ClassVar

from presage.synthesizers.external._base import External


class MostlyAi(External):
    """TabularARGN of the mostlyai-engine library; rows do not know of each other."""

    name: ClassVar[str] = "mostlyai"
    package: ClassVar[str] = "mostlyai-engine"
    extra: ClassVar[str] = "mostlyai"

    def _fit(self, frame: Any, seed: int, folder: str) -> Any:
        from mostlyai.engine import TabularARGN

        library = TabularARGN(
            max_epochs=self.settings.epochs,
            value_protection=False,  # it would hide rare labels behind one that the log does not have
            device="cpu",
            workspace_dir=folder,
            random_state=seed,
            verbose=0,
        )
        library.fit(frame)
        return library

    def _rows(self, library: Any, count: int) -> Any:
        return library.sample(n_samples=count)
