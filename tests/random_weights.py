"""Models -> the same models with large random weights; weights in float64."""

import numpy as np

from bert_tf.checkpoint import model_folders


def randomised(model, seed=2):
    """Sets weights so large that every term affects the outputs."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(rng.normal(0.1, 0.3, weight.shape))
    return model


def weights_of(model):
    """Returns weights by name, as `oracle` takes them."""
    return {
        name: weight.numpy().astype(np.float64)
        for name, weight in model_folders.weight_names(model).items()
    }
