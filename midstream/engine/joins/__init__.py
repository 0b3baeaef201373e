"""One join: the combinations on their way, how partners are found and checked, and how missing ones are filled in."""
