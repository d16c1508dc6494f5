"""Training and evaluation of small models on the CPU: what is fitted is judged by its numbers on data nobody saw."""

from __future__ import annotations

from pipeline.generators.domains.model_training.artifacts import averaged_checkpoints, few_bits
from pipeline.generators.domains.model_training.clusters import penguin_groups
from pipeline.generators.domains.model_training.evaluating import class_report, cut_off
from pipeline.generators.domains.model_training.learning import shelf_of_passages, tokenizer_merges
from pipeline.generators.domains.model_training.modelling import leaking_columns, network_as_json
from pipeline.generators.domains.model_training.neighbours import neighbour_search
from pipeline.generators.domains.model_training.predicting import held_out_classes, mixed_units
from pipeline.generators.domains.model_training.splits import split_by_group
from pipeline.generators.drafts import Pack

PACK = Pack(
    domain="model_training",
    families={
        "averaged_checkpoints": averaged_checkpoints,
        "class_report": class_report,
        "cut_off": cut_off,
        "few_bits": few_bits,
        "held_out_classes": held_out_classes,
        "leaking_columns": leaking_columns,
        "mixed_units": mixed_units,
        "neighbour_search": neighbour_search,
        "network_as_json": network_as_json,
        "penguin_groups": penguin_groups,
        "shelf_of_passages": shelf_of_passages,
        "split_by_group": split_by_group,
        "tokenizer_merges": tokenizer_merges,
    },
)
