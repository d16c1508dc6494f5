"""The shop that WebShop is played in: a catalogue, a search, pages with buttons, and what a purchase is worth.

Nothing here knows of games.
"""
