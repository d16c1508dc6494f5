"""Programs that have to be driven: games, prompts, menus, daemons. What was done is replayed from what they wrote."""

from __future__ import annotations

from pipeline.generators.domains.environment_interaction.puzzles import disc_towers, lamp_panel, vault_combination
from pipeline.generators.drafts import Pack

PACK = Pack(
    domain="environment_interaction",
    families={
        "disc_towers": disc_towers,
        "lamp_panel": lamp_panel,
        "vault_combination": vault_combination,
    },
)
