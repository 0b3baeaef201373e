"""Which way rows take from input to input: over which edges they may go, what was seen of them, and who decides.

    rows of a chunk  ->  sampling  ->  rates  ->  policy  ->  router  ->  the order of directions for that chunk

A *direction* is an edge from one end to the other. Executors that route prefer directions in an order; what they make
of it is theirs: EddyJoins and STAIRs stay on a spanning tree, SteMs take any edge.

| module | what it has |
| --- | --- |
| `edges` | the edges between inputs, and spanning trees of them |
| `counts` | a count that forgets |
| `rates` | how many partners a row finds over an edge: counters beside the base windows, forgetting what is old |
| `classes`, `class_rates` | rows told apart by a key, and the same counters for each class |
| `sampling` | some rows of each chunk probe the base windows, for the rates |
| `policy` | what a policy is given, and what it says |
| `arrivals` | which share of the rows is of which input |
| `policies/` | the policies, one a file: `fixed`, `rank`, `cost`, `cumulative`, `lottery`, `content` |
| `registry` | all of them by name |
| `trees` | which spanning tree is worth going over to |
| `router` | asks a policy once a chunk, and tells when the answer has changed |
| `choice` | what an executor is told about routing |
| `report` | what users see of it |
"""
