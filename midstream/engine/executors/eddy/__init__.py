"""Eddies: rows find their way over the edges of a spanning tree, and STAIRs keep what they have found.

A query's inputs and the predicates between them are a graph; a *spanning tree* of it has one edge fewer than inputs. A
combination is sent over an edge that leads out of the inputs it has: it is stored in the STAIR of its own end and
probes the STAIR of the other end, its *dual*. What comes out is sent on, until it has all inputs.

        R ─── S ─── T      edges a and b
         a       b

    row of R  ->  stored in R.a, probes S.a  ->  (r s)  ->  stored in S.b, probes T.b  ->  result

| module | what it has |
| --- | --- |
| `routing` | which edge a combination takes next, and what every STAIR should hold for that |
| `stair` | one STAIR: rows and combinations of one input on its side of an edge |
| `key_filter` | the keys that its rows may have |
| `store` | all STAIRs of a query, and the hops between them |
| `inserting`, `marks` | storing without duplicates once entries have been moved |
| `operations` | promotion and demotion |
| `moving` | entries are moved to where the routing wants them |
| `stages` | when entries have paid for being moved |
| `demoting` | what is demoted for want of memory |
| `guide` | what the executor goes by: the router's decisions, and what they mean for what is stored |
| `executor` | the executor itself, and its two kinds |
"""
