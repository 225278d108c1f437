import numpy as np


def reference(x, order, alpha):
    return alpha * np.asarray(x)[np.asarray(order)]


def permutation(N, seed):
    return np.random.default_rng(seed).permutation(N)
