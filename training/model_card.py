"""The card of a trained model: what it is, what it was trained on and how that went, in Markdown.

Not here: the figures themselves (training/models.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from jinja2 import Environment, StrictUndefined

_CARD = """\
---
base_model: {{ training.base | tojson }}
tags: [touchstone, {{ training.method }}]
{%- if kind == "adapter" %}
library_name: peft
{%- endif %}
---
# {{ name }} {{ version }}

{{ "A LoRA adapter for" if kind == "adapter" else "Weights that began as" }} {{ training.base }}, trained by
{{ training.method }} on {{ training.rows }} verified trajectories of `{{ training.snapshot }}`.

| | |
|---|---|
| snapshot | `{{ training.snapshot }}`, content {{ training.snapshot_sha256[:16] }} |
| base weights | sha256 {{ training.base_sha256[:16] }} |
| tokenizer | `{{ training.tokenizer_id }}`, chat template {{ training.chat_template_sha256[:16] }} |
| rows, left out | {{ training.rows }}, {{ training.left_out }} |
| windows, packs | {{ training.windows }}, {{ training.packs }} |
| padding | {{ "%.1f" | format(100 * training.padding_share) }} % |
| tokens, learned | {{ training.n_tokens }}, {{ training.n_target_tokens }} |
| parameters, trained | {{ training.parameters }}, {{ training.trainable_parameters }} |
| steps | {{ training.steps }} in {{ "%.0f" | format(training.seconds) }} s on {{ training.device }} |
| loss, first and last tenth | {{ "%.4f" | format(training.first_loss) }}, {{ "%.4f" | format(training.last_loss) }} |
{%- if training.validation_loss is not none %}
| lowest validation loss | {{ "%.4f" | format(training.validation_loss) }} |
{%- endif %}
| code | {{ training.code_commit or "unknown commit" }} |
{%- for package, version in training.packages.items() %}
| {{ package }} | {{ version }} |
{%- endfor %}
| trained at | {{ created_at }} |

`trained_on.parquet` names the rows it was trained on: `touchstone evaluate` leaves them out. `model.json` holds all of
this and the sha256 of each file.

```json
{{ config }}
```
"""


def card(model: Mapping[str, object]) -> str:
    """The card of what model.json holds."""
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    training = model["training"]
    assert isinstance(training, dict)
    return environment.from_string(_CARD).render(model, config=json.dumps(training["config"], indent=1))
