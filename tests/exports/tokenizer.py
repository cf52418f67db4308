"""A tokenizer of tensorflow-text with its vocabulary as an asset, as it is put before a language model."""

from pathlib import Path

import tensorflow as tf
import tensorflow_text

VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "owl", "cat", "sleep", "##s", "##ing", "and", ",", ".")


def export_tokenizer(path: Path) -> Path:
    """Two signatures: the words of a text, and the numbers of its word pieces. Ragged inside, dense outside."""
    vocabulary = path.parent / "pieces.txt"
    vocabulary.parent.mkdir(parents=True, exist_ok=True)
    vocabulary.write_text("\n".join(VOCABULARY) + "\n")
    module = tf.Module()
    module.words = tensorflow_text.WhitespaceTokenizer()
    module.pieces = tensorflow_text.BertTokenizer(str(vocabulary), token_out_type=tf.int64, lower_case=True)
    texts = tf.TensorSpec([None], tf.string, name="text")
    signatures = {
        "serving_default": tf.function(lambda text: {"ids": _pieces(module, text)}).get_concrete_function(texts),
        "words": tf.function(lambda text: {"words": module.words.tokenize(text).to_tensor("")}).get_concrete_function(
            texts
        ),
    }
    tf.saved_model.save(module, str(path), signatures=signatures)
    vocabulary.unlink()  # the export has its own copy
    return path


def _pieces(module: tf.Module, text: tf.Tensor) -> tf.Tensor:
    return module.pieces.tokenize(text).merge_dims(-2, -1).to_tensor(0)
