"""Programs that have to be driven: games, prompts, menus, daemons. What was done is replayed from what they wrote."""

from __future__ import annotations

from pipeline.generators.domains.environment_interaction.consoles import queue_console
from pipeline.generators.domains.environment_interaction.daemons import calibrated_instrument, paced_process
from pipeline.generators.domains.environment_interaction.depot import depot_robot
from pipeline.generators.domains.environment_interaction.lamps import lamp_panel
from pipeline.generators.domains.environment_interaction.places import cave_map
from pipeline.generators.domains.environment_interaction.prompts import coin_kiosk, word_ladder
from pipeline.generators.domains.environment_interaction.puzzles import disc_towers, vault_combination
from pipeline.generators.domains.environment_interaction.screens import airport_ticks, message_board
from pipeline.generators.drafts import Pack

PACK = Pack(
    domain="environment_interaction",
    families={
        "airport_ticks": airport_ticks,
        "calibrated_instrument": calibrated_instrument,
        "cave_map": cave_map,
        "coin_kiosk": coin_kiosk,
        "depot_robot": depot_robot,
        "disc_towers": disc_towers,
        "lamp_panel": lamp_panel,
        "message_board": message_board,
        "paced_process": paced_process,
        "queue_console": queue_console,
        "vault_combination": vault_combination,
        "word_ladder": word_ladder,
    },
)
