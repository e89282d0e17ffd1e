"""All faults that are put in."""

from __future__ import annotations

from tests.mutations.admitting import ADMITTED
from tests.mutations.finishing import FINISHED
from tests.mutations.launching import LAUNCHED
from tests.mutations.losing import LOST
from tests.mutations.staging import STAGING
from tests.mutations.tokens import TOKENS

MUTATIONS = (*STAGING, *FINISHED, *ADMITTED, *TOKENS, *LOST, *LAUNCHED)
