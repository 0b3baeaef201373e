"""Numba kernels: arrays in, arrays out. They import nothing else of Midstream.

Conventions that all of them share:

* an *id* is a number that a ring gave to a row or an entry; it lives in slot ``id & (capacity - 1)``;
* a ring holds the ids from `head` up to, but not including, `tail`;
* a *combination* is one row id per input plus the interval on which all its rows are valid;
* a kernel that makes combinations writes them into an `out` block from ``cursor[COUNT]`` on and stops when the block is
  full; called again with the same cursor it goes on where it stopped.
"""
