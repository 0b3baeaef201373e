"""Pushed tables -> accepted rows with key codes: what happens before a row enters a base window."""
