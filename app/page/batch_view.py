"""The batch on the page: progress while it runs, then a table, the throughput and a ZIP."""

from __future__ import annotations

import logging
import time
import zipfile
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.engines.holder import Engine, EngineHolder, NotReadyError
from app.page.buttons import buttons
from app.pictures.store import PictureStore
from app.questions.question import Question, QuestionError, parse_names
from app.runs.batch import Row, run_batch

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BatchView:
    """Gradio listeners of the batch."""

    holder: EngineHolder
    store: PictureStore

    async def start(
        self, files: list[str] | None, task: str, text: str, pipelined: bool, max_objects: int
    ) -> AsyncIterator[tuple[Any, ...]]:
        """Ask about every file; yields (view, start button, stop button)."""
        try:
            names = parse_names(text or "", task)
            question = Question(task.lower(), names, bool(pipelined), int(max_objects))
            engine = self.holder.engine()
            async with aclosing(self._run(engine, [Path(one) for one in files or ()], question)) as views:
                async for view in views:
                    yield view, *buttons(running="zip" not in view)
        except (QuestionError, NotReadyError) as error:
            yield {"problem": True, "text": str(error)}, *buttons(running=False)
        except Exception as error:
            log.exception("a batch failed")
            yield {"problem": True, "text": f"The batch failed on the server: {error}"}, *buttons(running=False)

    def stopped(self) -> tuple[Any, ...]:
        """Stop was pressed, or Gradio could not run it: (view, start button, stop button)."""
        return {"text": "The batch was stopped."}, *buttons(running=False)

    async def _run(self, engine: Engine, paths: Sequence[Path], question: Question) -> Any:
        token, place = self.store.place("zip")
        start = time.perf_counter()
        rows: list[Row | None] = []
        try:
            with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
                async with aclosing(run_batch(engine, paths, question, self.store.limits, archive)) as parts:
                    async for rows in parts:
                        done = sum(row is not None for row in rows)
                        yield {"progress": {"done": done, "count": len(rows)}, "rows": _shown(rows)}
            wall_s = time.perf_counter() - start
            self.store.keep(token, place)
        except BaseException:
            place.unlink(missing_ok=True)
            raise
        yield {
            "rows": _shown(rows),
            "zip": f"batches/{token}.zip",
            "text": f"{len(rows)} pictures in {wall_s:.2f} s: {len(rows) / wall_s:.1f} pictures/s.",
        }


def _shown(rows: Sequence[Row | None]) -> list[dict[str, Any]]:
    return [row.shown() for row in rows if row is not None]
