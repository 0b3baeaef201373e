"""DISTINCT moves below a join while the query runs: many clicks of a few users, and the pages that their cities saw."""

import midstream as ms

query = ms.query(
    """SELECT DISTINCT u.city, c.page
       FROM clicks [RANGE 1 MINUTE] c, users [RANGE 1 HOUR] u WHERE c.user = u.id""",
    schemas={"clicks": {"ts": int, "user": int, "page": str}, "users": {"ts": int, "id": int, "city": str}},
    event_time="ts",
    step="1 minute",
)
users = [{"ts": 0, "id": user, "city": ["Oslo", "Rome"][user % 2]} for user in range(4)]
clicks = [{"ts": n * 20_000, "user": n % 4, "page": f"page {n % 3}"} for n in range(18_000)]
engine = ms.Engine(query, plan="c u")
found = [engine.push({"users": users, "clicks": clicks[:9_000]}, watermark=180_000_000)]
print(engine.migrate("distinct(c) u", budget=0))
found.append(engine.push({"clicks": clicks[9_000:]}, watermark=360_000_000))
kept = {state.name: state.rows for state in engine.stats().states if state.kind == "operator"}
print(f"{engine.plan} keeps {kept} of {len(clicks):,} clicks; rows before and after: {[t.num_rows for t in found]}")
