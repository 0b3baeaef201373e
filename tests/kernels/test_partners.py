"""Rows without a partner, against plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from midstream.kernels import partners
from midstream.kernels.types import NO_REASON

from .test_chains import insert_entries, keys_of, new_chains
from .twins import Entries, draw_combos


@pytest.mark.parametrize("size", [0, 1, 60])
@pytest.mark.parametrize("seed", range(4))
def test_rows_without_a_partner_get_a_reason(seed: int, size: int) -> None:
    rng = np.random.default_rng([seed, size, 91])
    held = [Entries.draw(rng, int(rng.integers(1, 200)), 12, 0, keys=40) for _ in range(3)]
    window, hidden, chunk = (
        (tuple(insert_entries(entries, new_chains(64, 2, seed))), entries.head) for entries in held
    )
    rows, keys = draw_combos(rng, size, 1), keys_of(rng, size, 40)
    others, other_keys = draw_combos(rng, 5, 1), keys_of(rng, 5, 40)
    reasons = np.where(rng.random(size) < 0.2, 7, NO_REASON)

    def has_partner(at: int) -> bool:
        known = [
            (entries.keys[entry], entries.starts[entry], entries.ends[entry])
            for entries in held
            for entry in range(entries.head, entries.tail)
        ]
        known += zip(other_keys.tolist(), others.starts.tolist(), others.ends.tolist(), strict=True)
        return any(key == keys[at] and start <= rows.ends[at] and end >= rows.starts[at] for key, start, end in known)

    wanted = [7 if reasons[at] == 7 else NO_REASON if has_partner(at) else 3 for at in range(size)]
    arrived = (other_keys, others.starts, others.ends)
    found = partners.find_lacking((window, hidden, chunk), arrived, keys, (rows.starts, rows.ends), reasons, 3)
    assert reasons.tolist() == wanted and found == wanted.count(3)
    assert size < 60 or {3, 7, NO_REASON} == set(wanted)
