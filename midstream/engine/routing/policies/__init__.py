"""The policies, one a file: each makes weights of what was seen of the edges."""
