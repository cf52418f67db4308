import numpy as np
import pytest

from clients.digits.pictures import WORDS, encode_png


@pytest.fixture
def ask(digits):
    """Run one signature and return its outputs as arrays."""

    def run(signature, **inputs):
        import tensorflow as tf

        outputs = digits.signatures[signature](**{name: tf.constant(value) for name, value in inputs.items()})
        return {name: tensor.numpy() for name, tensor in outputs.items()}

    return run


def test_export_has_every_signature(digits):
    assert set(digits.signatures) == {
        "predict",
        "embeddings",
        "predict_png",
        "embed_text",
        "image_threshold",
        "text_threshold",
        "metadata",
        "debug_predict",
        "debug_embeddings",
    }


def test_signatures_with_inputs_have_an_open_first_dimension_throughout(digits):
    for signature in digits.signatures.values():
        inputs = signature.structured_input_signature[1].values()
        for spec in (*inputs, *(signature.structured_outputs.values() if inputs else ())):
            assert spec.shape[0] is None


def test_weights_are_written_once(digits):
    written = sum(path.stat().st_size for path in (digits.directory / "variables").glob("variables.data-*"))
    weights = sum(4 * int(np.prod(v.shape)) for v in digits.signatures["predict"].graph.variables)
    assert weights <= written < 1.5 * weights
    assert (digits.directory / "saved_model.pb").stat().st_size < 200_000


def test_predict_is_right_about_held_out_pictures(digits, ask):
    assert np.mean(ask("predict", images=digits.held_out.images)["class"] == digits.held_out.labels) > 0.95


def test_predict_png_answers_what_predict_answers_for_the_same_pixels(digits, ask):
    images = digits.held_out.images
    from_png = ask("predict_png", png=[encode_png(image) for image in images])
    from_pixels = ask("predict", images=images)
    assert np.array_equal(from_png["class"], from_pixels["class"])
    np.testing.assert_allclose(from_png["score"], from_pixels["score"], rtol=1e-5)


def test_predict_png_refuses_a_picture_of_another_size(ask):
    import tensorflow as tf

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[9,9,1\]"):
        ask("predict_png", png=[encode_png(np.zeros([9, 9]))])


def test_embeddings_have_unit_length(digits, ask):
    embeddings = ask("embeddings", images=digits.held_out.images)["embedding"]
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, rtol=1e-5)


def test_each_word_is_nearest_to_the_pictures_of_its_digit(digits, ask):
    images, labels = ask("embeddings", images=digits.held_out.images)["embedding"], digits.held_out.labels
    for digit, word in enumerate(ask("embed_text", words=list(WORDS))["embedding"]):
        mean_cosines = [np.mean(images[labels == other] @ word) for other in range(10)]
        assert np.argmax(mean_cosines) == digit


def test_words_are_read_without_regard_to_case_and_spaces(ask):
    plain, odd = ask("embed_text", words=["seven", " Seven\n"])["embedding"]
    assert np.array_equal(plain, odd)


def test_a_word_that_names_no_digit_is_nowhere(ask):
    assert not ask("embed_text", words=["eleven"])["embedding"].any()


def test_text_threshold_tells_right_words_from_wrong_ones(digits, ask):
    images, words = ask("embeddings", images=digits.held_out.images), ask("embed_text", words=list(WORDS))
    judged = images["embedding"] @ words["embedding"].T > ask("text_threshold")["threshold"]
    right = digits.held_out.labels[:, np.newaxis] == np.arange(10)
    assert judged[right].mean() > 0.9
    assert judged[~right].mean() < 0.1


def test_image_threshold_tells_the_same_digit_from_another(digits, ask):
    images, labels = ask("embeddings", images=digits.held_out.images)["embedding"], digits.held_out.labels
    judged = images @ images.T > ask("image_threshold")["threshold"]
    same = labels[:, np.newaxis] == labels
    assert judged[same].mean() > 0.9
    assert judged[~same].mean() < 0.1


def test_metadata_tells_what_is_true_of_the_model(digits, ask):
    metadata = ask("metadata")
    assert metadata["class_names"].tolist() == [word.encode() for word in WORDS]
    assert metadata["training_images"] == len(digits.training.labels)
    assert metadata["embedding_size"] == ask("embed_text", words=["one"])["embedding"].shape[1]
    classes = ask("predict", images=digits.held_out.images)["class"]
    assert metadata["held_out_accuracy"] == pytest.approx(np.mean(classes == digits.held_out.labels))
    assert isinstance(metadata["description"], bytes)


def test_debug_signatures_show_the_way_to_the_answers(digits, ask):
    images = digits.held_out.images
    to_class, to_embedding = ask("debug_predict", images=images), ask("debug_embeddings", images=images)
    assert np.array_equal(to_class["logits"].argmax(axis=1), ask("predict", images=images)["class"])
    np.testing.assert_allclose(to_class["probabilities"].sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(to_class["hidden"], to_embedding["hidden"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        to_embedding["projected"] / to_embedding["length"][:, np.newaxis],
        ask("embeddings", images=images)["embedding"],
        atol=1e-5,
    )


def test_no_rows_are_a_legal_batch(ask):
    assert ask("predict", images=np.zeros([0, 8, 8], np.float32))["class"].shape == (0,)
    assert ask("predict_png", png=np.array([], np.object_).astype("S"))["class"].shape == (0,)


def test_files_to_try_it_lie_beside_it(digits, ask):
    shown = ask("predict_png", png=[(digits.directory / "digit.png").read_bytes()])["class"]
    several = ask("predict", images=np.load(digits.directory / "pictures.npy"))["class"]
    assert (*shown, *several) == (5, 5, 8, 3)
