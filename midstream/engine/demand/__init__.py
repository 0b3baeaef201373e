"""Demand: rows that nobody can use yet do not enter.

entrance   what arrives -> what enters: a row without a partner in a neighbouring window is hidden until one comes
edges      which neighbours an input has, and how partners are found in both directions
reviews    along which edges partners are looked for, where that has to pay
chunk      the rows that arrive together, which are partners of each other too
"""
