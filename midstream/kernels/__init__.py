"""Numba kernels: arrays in, arrays out. They import nothing else of Midstream.

Conventions that all of them share:

* an *id* is a number that a ring gave to a row or an entry; it lives in slot ``id & (capacity - 1)``;
* a ring holds the ids from `head` up to, but not including, `tail`;
* a *combination* is one row id per input plus the interval on which all its rows are valid;
* a kernel that makes combinations writes them into an `out` block from ``cursor[COUNT]`` on and stops when the block is
  full; called again with the same cursor it goes on where it stopped.

The three probes (`chains`, `runs`, `loops`) write a match with the same few lines, spelled out in each. A shared
function costs too much: inlined by Numba it counts references to seven arrays per match (5 to 80 ns), and inlined by
LLVM without reference counts it is 3 to 8 percent slower in `runs` and `loops`.
"""
