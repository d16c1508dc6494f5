"""Households for ALFWorld, whose package has rules and a grammar and no games: rooms, tasks and how they are solved."""
