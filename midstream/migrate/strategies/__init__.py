"""The strategies, one a file: each says why it cannot make a change, if so, and what runs from now on."""
