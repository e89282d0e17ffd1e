"""Faults of finishing, cancelling and failing (9 to 13)."""

from __future__ import annotations

from tests.mutations.places import (
    ADMISSION,
    ADMITTING,
    CHOICE_FAILS,
    EXACT,
    FAILING,
    FINISHING,
    LOOP,
    PREFIXES,
    RESERVATIONS,
    RUNNER,
    RUNNING,
    SCHEDULER,
    UNHELD,
    fault,
)

FINISHED = (
    fault(
        9,
        "memory goes back while a zombie still writes to it",
        (SCHEDULER, UNHELD, "if not sequence.finalized or sequence.phase is not Phase.RUNNING:"),
        tests=(FINISHING, EXACT),
    ),
    fault(
        10,
        "a prefix is usable from its launch on, before it is committed",
        (PREFIXES, "    ready: bool = False\n", "    ready: bool = True\n"),
        tests=(ADMITTING, EXACT),
    ),
    fault(
        10,
        "the prefix of a failed step is kept",
        (
            RESERVATIONS,
            "            if step.error is None and not sequence.tainted:\n",
            "            if not sequence.tainted or step.error:\n",
        ),
        tests=(ADMITTING, EXACT),
    ),
    fault(
        11,
        "the row of a request that ends in flight is lost",
        (
            RESERVATIONS,
            "        self.rows.give([sequence.row])\n",
            "        if sequence.zombie_steps == 0:\n            self.rows.give([sequence.row])\n",
        ),
        tests=(FINISHING, EXACT),
    ),
    fault(
        11,
        "the pages of a request without a result are lost",
        (
            RESERVATIONS,
            "        self.pages.give(sequence.pages)\n",
            "        if sequence.committed:\n            self.pages.give(sequence.pages)\n",
        ),
        tests=(FINISHING, EXACT),
    ),
    fault(
        11,
        "a prefix stays pinned",
        (RESERVATIONS, "            self.prefixes.unpin(sequence.prefix)\n", "            pass\n"),
        tests=(ADMITTING, EXACT),
    ),
    fault(
        11,
        "an adapter slot stays referenced",
        (RESERVATIONS, "            self.adapters.give(sequence.adapter_slot)\n", "            pass\n"),
        tests=(ADMITTING, EXACT),
    ),
    fault(
        11,
        "pages are freed twice, and nothing is said",
        (
            "memory/pages.py",
            "            if item not in self._taken:\n",
            "            if False:\n",
        ),
        ("memory/pages.py", "            self._taken.remove(item)\n", "            self._taken.discard(item)\n"),
        (
            RESERVATIONS,
            "        self.pages.give(sequence.pages)\n",
            "        self.pages.give(sequence.pages)\n        self.pages.give(sequence.pages[-1:])\n",
        ),
        tests=(FINISHING, EXACT),
    ),
    fault(
        12,
        "a cancelled request stays in the queue",
        (
            SCHEDULER,
            "        if sequence.phase is Phase.WAITING:\n            self._admission.remove(sequence)\n",
            "        if sequence.phase is Phase.WAITING:\n",
        ),
        tests=(FINISHING, EXACT),
    ),
    fault(
        12,
        "an end is told for every cancellation",
        (
            SCHEDULER,
            "        if sequence.finalized:\n            return\n        sequence.finalized",
            "        sequence.finalized",
        ),
        tests=(FINISHING, EXACT),
    ),
    fault(
        12,
        "a cancelled leader takes its prefix with it",
        (
            RESERVATIONS,
            "            if step.error is None and not sequence.tainted:\n",
            "            if step.error is None and not sequence.tainted and not sequence.finalized:\n",
        ),
        tests=(ADMITTING,),
    ),
    fault(
        12,
        "requests that move up after a cancellation are not prepared",
        (
            ADMISSION,
            "        self.waiting.remove(sequence)\n        self.stale()\n",
            "        self.waiting.remove(sequence)\n",
        ),
        tests=(ADMITTING,),
    ),
    fault(
        13,
        "after an error a step is not committed",
        (SCHEDULER, "            step.error = error\n", "            step.error = error\n            return False\n"),
        tests=(FAILING,),
    ),
    fault(
        13,
        "an error of a step's staging leaves sampling on",
        (
            RUNNER,
            "            slot.error = slot.error or error\n            return _nothing\n",
            "            return _nothing\n",
        ),
        tests=(FAILING, EXACT),
    ),
    fault(
        13,
        "an error of a skill's list stops the tick",
        (
            SCHEDULER,
            CHOICE_FAILS,
            "            except ZeroDivisionError as error:\n                self._fail(sequence, error)\n"
            "        sequence.zombie",
        ),
        tests=(FAILING,),
    ),
    fault(
        13,
        "an error of a listener stops the tick",
        (
            SCHEDULER,
            "        except Exception as error:\n            self._fail(sequence, error)\n",
            "        except ZeroDivisionError as error:\n            self._fail(sequence, error)\n",
        ),
        tests=(FAILING,),
    ),
    fault(
        13,
        "an error at the end of a request stops the tick",
        (
            SCHEDULER,
            "        except Exception:  # nobody is left",
            "        except ZeroDivisionError:  # nobody is left",
        ),
        tests=(FAILING,),
    ),
    fault(
        13,
        "a device that is lost is taken for a failed step",
        (
            SCHEDULER,
            "        except DeviceError:\n            raise  # the device is lost, and the engine with it\n",
            "",
        ),
        tests=(FAILING, RUNNING),
    ),
    fault(
        13,
        "when the engine fails, those who wait are not told",
        (LOOP, "        self.scheduler.abort(stopped)\n        self._act_on_ends()\n", "        self._act_on_ends()\n"),
        (LOOP, "        for call in tuple(self._calls):  # whoever", "        for call in ():  # whoever"),
        tests=(RUNNING,),
    ),
    fault(
        13,
        "pictures are dropped while another computes their prefix, and not prepared again when it fails",
        (
            ADMISSION,
            "            if image and not (prefix and prefix.ready):\n",
            "            if image and not prefix:\n",
        ),
        (SCHEDULER, "            if step.leaders:\n                self._admission.stale()\n", ""),
        tests=(ADMITTING, EXACT),
    ),
)
