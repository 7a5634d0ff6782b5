"""Makes a model of a row and what sentence-transformers computes with it."""
import json
import random
from pathlib import Path

import torch

import words


def make(name, row, folder):
    """Writes the model and expected.json to a folder. Returns what it expects."""
    torch.manual_seed(sum(map(ord, name)))
    random.seed(name)
    folder = Path(folder)
    model = row(folder / "body")
    model.save(str(folder), create_model_card=False)
    return folder, model
