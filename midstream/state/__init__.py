"""What the engine remembers: base windows, their columns and indexes, and partial join states.

Everything lives in rings. A ring gives out growing ids, keeps the ids from `head` to `tail`, and forgets from the head;
an id's slot is ``id & (capacity - 1)``, so neither adding nor forgetting ever moves what stays.
"""
