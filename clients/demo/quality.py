"""What the server's answers are worth, measured against what the held-out pictures really show."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from clients.demo.calls import Tensors
from clients.demo.traffic import Outcome

_PICTURES_FLOOR: Final = 0.95
_PAIRS_FLOOR: Final = 0.9  # chance is 0.5


@dataclass(frozen=True)
class Quality:
    """A share of right results.

    Attributes:
        share: from 0 to 1.
        of: what was counted, as a few words.
        floor: the least share that will do.
    """

    share: float
    of: str
    floor: float

    @property
    def good(self) -> bool:
        """Whether the share will do."""
        return self.share >= self.floor

    def __str__(self) -> str:
        return f"{self.share:.1%} of {self.of}"


def collect(outcomes: list[Outcome]) -> dict[str, Tensors]:
    """Put the answers' rows back together: for each signature, each output for all held-out pictures.

    The outcomes are without fault and cover every row; a row that was asked for more than once is taken once.
    """
    answers: dict[str, Tensors] = {}
    for outcome in outcomes:
        call = outcome.request.call
        whole = answers.setdefault(call.signature, {name: np.empty_like(all_) for name, all_ in call.expected.items()})
        for name, rows in outcome.answer.items():
            whole[name][outcome.request.rows if call.inputs else ...] = rows
    return answers


def measure(answers: Mapping[str, Tensors], labels: np.ndarray) -> dict[str, Quality]:
    """Return the quality of each signature whose answers can be right or wrong about the pictures.

    Args:
        answers: as ``collect`` returns them, n rows each; row i of ``embed_text`` is the word for picture i.
        labels: the digit that each picture shows, INT64 [n].
    """
    images = answers["embeddings"]["embedding"]
    _, first_of_digit = np.unique(labels, return_index=True)
    words = answers["embed_text"]["embedding"][first_of_digit]
    to_pictures, to_words = images @ images.T, images @ words.T
    first, second = np.triu_indices(len(labels), k=1)  # each pair of two different pictures once
    same, named = labels[first] == labels[second], labels[:, np.newaxis] == np.arange(len(words))
    return {
        "predict": _of_pictures(answers["predict"]["class"] == labels),
        "predict_png": _of_pictures(answers["predict_png"]["class"] == labels),
        "debug_predict": _of_pictures(answers["debug_predict"]["logits"].argmax(axis=1) == labels),
        "embeddings": _of_pictures(to_words.argmax(axis=1) == labels),
        "embed_text": Quality(_share_of_words_that_find_their_digit(to_words, labels), "words", 1.0),
        "image_threshold": _of_pairs(to_pictures[first, second] > answers["image_threshold"]["threshold"], same),
        "text_threshold": _of_pairs(to_words > answers["text_threshold"]["threshold"], named),
        "debug_embeddings": Quality(_share_that_leads_to(images, answers["debug_embeddings"]), "embeddings", 1.0),
    }


def _of_pictures(right: np.ndarray) -> Quality:
    return Quality(float(right.mean()), f"{len(right)} pictures", _PICTURES_FLOOR)


def _of_pairs(judged: np.ndarray, true: np.ndarray) -> Quality:
    """Count matching and other pairs in equal shares, so that chance is a half however rare matches are."""
    share = (judged[true].mean() + (~judged[~true]).mean()) / 2
    return Quality(float(share), f"{judged.size:,} pairs", _PAIRS_FLOOR)


def _share_of_words_that_find_their_digit(to_words: np.ndarray, labels: np.ndarray) -> float:
    """Return for how many words the pictures of their own digit are nearest on average; cosines [n, words]."""
    digits = np.arange(to_words.shape[1])
    mean_cosines = np.stack([to_words[labels == digit].mean(axis=0) for digit in digits])
    return float((mean_cosines.argmax(axis=0) == digits).mean())


def _share_that_leads_to(embeddings: np.ndarray, steps: Tensors) -> float:
    """Return for how many rows the intermediate values lead to the embedding that another signature answered."""
    led_to = steps["projected"] / steps["length"][:, np.newaxis]
    return float(np.isclose(led_to, embeddings, atol=1e-4).all(axis=1).mean())
