"""Faults that lose requests, keep memory, spread overflows, or sit in parts that only real devices and models use."""

from __future__ import annotations

from tests.mutations.places import (
    ADMISSION,
    ADMITTING,
    CALL,
    EXACT,
    FAILING,
    LOOP,
    LOSING,
    MODEL_STEPS,
    PIPELINE,
    RESERVATIONS,
    RUNNER,
    RUNNING,
    SCHEDULER,
    fault,
)

PIPELINES = "tests/scheduler/test_pipeline.py"
SAMPLING = "tests/runtime/test_sampling.py"
ATTENDING = "tests/runtime/test_attention.py"
CPU = "tests/devices/test_cpu.py"
BUILDING = "tests/engine/test_sizing.py"
SLOTS_OF_ADAPTERS = "tests/memory/test_adapter_slots.py"

LOSING_REQUESTS = (
    fault(
        13,
        "requests are in no list between their admission and their launch",
        (
            SCHEDULER,
            "        self.running += batch\n        for sequence in batch:\n",
            "        for sequence in batch:\n",
        ),
        (
            SCHEDULER,
            "                self._lead(step, sequence)\n        return step\n",
            "                self._lead(step, sequence)\n        self.running += batch\n        return step\n",
        ),
        (LOOP, "        for call in tuple(self._calls):  # whoever", "        for call in ():  # whoever"),
        tests=(LOSING,),
    ),
    fault(
        13,
        "the mask model stays locked when an outline fails",
        (
            "masks/lazy.py",
            "            return list(self._model.masks(image, boxes))\n",
            "            yield from self._model.masks(image, boxes)\n",
        ),
        tests=("tests/masks/test_lazy.py",),
    ),
    fault(
        13,
        "a plan that raises at its end ends the engine",
        (
            CALL,
            "        try:\n            self._plan.close()\n        except Exception:\n",
            "        self._plan.close()\n        if False:\n",
        ),
        (
            LOOP,
            "            except Exception:  # the other calls",
            "            except ZeroDivisionError:  # the other calls",
        ),
        tests=(LOSING,),
    ),
    fault(
        13,
        "one call that cannot be ended keeps others from being told",
        (
            LOOP,
            "            except Exception:  # the other calls",
            "            except ZeroDivisionError:  # the other calls",
        ),
        tests=(LOSING,),
    ),
    fault(
        12,
        "a failed request leaves its siblings running",
        (
            CALL,
            '            self.fail(error or RuntimeError("A request ended without a result."))\n            self.cancel()\n',
            '            self.fail(error or RuntimeError("A request ended without a result."))\n',
        ),
        tests=(RUNNING,),
    ),
    fault(
        13,
        "a stop waits for a device that hangs",
        (LOOP, "            self._thread.join(_ABANDON_S)\n", "            self._thread.join()\n"),
        tests=(LOSING,),
    ),
    fault(
        13,
        "a stop that gives up tells nobody",
        (LOOP, "            call.give_up(stopped)\n", "            pass\n"),
        tests=(LOSING,),
    ),
)

KEEPING = (
    fault(
        38,
        "a slot keeps the pictures of the rows that it last decoded",
        (RUNNER, "            slot.cohort = cohort\n", "            slot.cohort, slot.kept = cohort, step.sequences\n"),
        tests=(LOSING,),
    ),
    fault(
        38,
        "an ended call is kept by the loop",
        (LOOP, "            call.future.add_done_callback(lambda _: self._calls.discard(call))\n", ""),
        tests=(LOSING,),
    ),
    fault(
        38,
        "the heap stays frozen when an engine is closed",
        ("engine/build.py", "        gc.unfreeze()  # the parts", "        pass  # the parts"),
        tests=(BUILDING,),
    ),
)

OVERFLOWS = (
    fault(
        9,
        "a step is captured over the pending value of whoever had the first row",
        (RUNNER, "    rows[:, ROW] = scratch_row\n", ""),
        tests=("tests/scheduler/test_failures.py",),
    ),
    fault(
        9,
        "pages with values that are no numbers go to the next owner",
        (SCHEDULER, "            self._runner.clear(sequence.pages)\n", "            pass\n"),
        tests=(MODEL_STEPS, EXACT),
    ),
    fault(
        9,
        "a zombie's overflow is not noticed",
        (
            SCHEDULER,
            "            if tokens is None or not tokens[i].finite:\n",
            "            if tokens is None or not (tokens[i].finite or sequence.finalized):\n",
        ),
        tests=(FAILING, EXACT),
    ),
    fault(
        9,
        "the overflow of a step that failed is not noticed",
        (
            SCHEDULER,
            "            if tokens is None or not tokens[i].finite:\n",
            "            if tokens and not tokens[i].finite:\n",
        ),
        tests=(FAILING, EXACT),
    ),
    fault(
        10,
        "a prefix with values that are no numbers is kept",
        (
            RESERVATIONS,
            "            if step.error is None and not sequence.tainted:\n",
            "            if step.error is None:\n",
        ),
    ),
    fault(
        10,
        "the pages of a prefix with values that are no numbers go to the next owner",
        (SCHEDULER, "                    self._runner.clear(sequence.prefix.pages)\n", "                    pass\n"),
    ),
    fault(
        31,
        "values that are no numbers are answered",
        (
            SCHEDULER,
            "            if overflowed and not token.finite:\n                raise",
            "            if False:\n                raise",
        ),
        tests=(MODEL_STEPS, EXACT),
    ),
    fault(
        9,
        "the overflow of one row's padding stays on the page that all short rows read",
        ("runtime/attention.py", "        if self._padding is not None:", "        if False:"),
        tests=(ATTENDING,),
    ),
)

PIPELINING = (
    fault(2, "slots are not taken in turn", (PIPELINE, "(step.slot + 1) % SLOTS", "step.slot"), tests=(PIPELINES,)),
    fault(
        22,
        "the newest step is taken for the committed one",
        (PIPELINE, "        self._steps.popleft()\n", "        self._steps.pop()\n"),
        tests=(PIPELINES,),
    ),
    fault(
        20,
        "a step is launched before the last one is sampled",
        (PIPELINE, " and all(s.state is StepState.SAMPLED for s in self._steps)", ""),
        tests=(PIPELINES,),
    ),
    fault(
        20,
        "a step may be sampled before the steps before it are committed",
        (
            PIPELINE,
            "        if self.oldest is not step or step.state is not StepState.LAUNCHED:\n",
            "        if step.state is not StepState.LAUNCHED:\n",
        ),
        tests=(PIPELINES,),
    ),
    fault(
        11,
        "a committed step keeps its references",
        (PIPELINE, "        self._hold(step, -1)\n", ""),
        tests=(PIPELINES,),
    ),
)

PARTS = (
    fault(
        7,
        "the work of a CPU's stream runs in another order",
        ("devices/cpu.py", "object] | None] = queue.SimpleQueue()", "object] | None] = queue.LifoQueue()"),
        tests=(CPU,),
    ),
    fault(
        4,
        "an event of a CPU happens when it is recorded",
        ("devices/cpu.py", "        self._queue.put(event.arm())\n", "        event.arm()()\n"),
        tests=(CPU,),
    ),
    fault(
        24,
        "a draw takes no notice of the temperature",
        (
            "runtime/sampling.py",
            "logits / temperature.clamp_min(_COLDEST).unsqueeze(-1)",
            "logits + 0 * temperature.unsqueeze(-1)",
        ),
        tests=(SAMPLING,),
    ),
    fault(
        18,
        "adapter slots are taken by number, not by least recent use",
        ("memory/adapter_slots.py", "        self._slots.remove(slot)\n        self._slots.append(slot)\n", ""),
        tests=(SLOTS_OF_ADAPTERS,),
    ),
    fault(
        18,
        "an adapter slot keeps what its last adapter had at other sites",
        ("runtime/adapter_bank.py", "            a[slot].zero_()\n            b[slot].zero_()\n", ""),
        tests=("tests/engine/test_adapters.py",),
    ),
    fault(
        24,
        "a draw keeps one candidate more than top-p does",
        (
            "runtime/sampling.py",
            "    kept = (before <= top_p.unsqueeze(-1)) & (probs > 0)\n",
            "    kept = (before <= top_p.unsqueeze(-1) + 0.05) & (probs > 0)\n",
        ),
        tests=(SAMPLING,),
    ),
    fault(
        21,
        "a banned id may be picked",
        (
            "runtime/sampling.py",
            "            free = logits.scatter_add(1, bans.clamp_min(0), penalty)\n",
            "            free = logits\n",
        ),
        tests=(SAMPLING,),
    ),
    fault(
        4,
        "a query sees the position after its own",
        (
            "runtime/backends.py",
            "        hidden = slots > self.positions.unsqueeze(-1)\n",
            "        hidden = slots > self.positions.unsqueeze(-1) + 1\n",
        ),
        tests=(ATTENDING,),
    ),
    fault(
        4,
        "padding is written to the row's own pages",
        (
            "runtime/attention.py",
            "            where = where.where(valid, where % cache.page_size)\n",
            "            where = where + 0\n",
        ),
        tests=(ATTENDING,),
    ),
    fault(
        8,
        "a kernel is chosen that is wrong for shared key heads",
        (
            "runtime/executor.py",
            "Heads(text.n_heads, text.n_kv_heads, text.head_dim)",
            "Heads(text.n_kv_heads, text.n_kv_heads, text.head_dim)",
        ),
        tests=(BUILDING,),
    ),
    fault(
        15,
        "the cache takes all that is free",
        ("engine/sizing.py", "int(free_bytes * CACHE_SHARE)", "int(free_bytes)"),
        tests=(BUILDING,),
    ),
    fault(
        16,
        "prefills are bounded by the context only",
        (
            "engine/core.py",
            "        config.max_batch, config.max_prefill_tokens, config.max_prefill_images, shape.max_context, page_size\n",
            "        config.max_batch, shape.max_context, config.max_prefill_images, shape.max_context, page_size\n",
        ),
        tests=(ADMITTING,),
    ),
    fault(
        17,
        "a long prompt waits for company that never fits",
        (
            ADMISSION,
            "self._limits.max_prefill_tokens or not self.sequences\n",
            "self._limits.max_prefill_tokens\n",
        ),
        tests=(ADMITTING,),
    ),
)

LOST = (*LOSING_REQUESTS, *KEEPING, *OVERFLOWS, *PIPELINING, *PARTS)
