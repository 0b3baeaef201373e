"""The engine from the inside: partial states, chunks, watermarks, snapshots."""
