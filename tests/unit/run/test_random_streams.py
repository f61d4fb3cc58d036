"""Streams of random numbers: one for each purpose, repeatable from a seed, and secret without one."""

import hmac
from pathlib import Path

import numpy as np
import pytest

from pate.classifier import SeededNoise
from pate.classifier.fit_streams import streams_of
from pate.mechanisms import cipher_generator
from pate.run.random_streams import RandomStreams
from tests.refusals import ANY, refused_parameter

PURPOSES = ("partition", "teachers", "noise", "student")
SECRET_BYTES = bytes(range(32))


def test_without_a_seed_all_streams_except_noise_repeat(
    tmp_path: Path,
) -> None:
    """Without a seed, all streams but that of the noise repeat, as they come from a secret file of mode 0600.

    A secret that is damaged, or that others can read, is refused. A new secret has 32 bytes, which its repr hides.
    """
    secret_file = tmp_path / "training.secret"
    run_streams = RandomStreams.of_run(secret_file, seed=None)
    assert (
        run_streams.generator(purpose="noise").random()
        != run_streams.generator(purpose="noise").random()
    )
    second_run_streams = RandomStreams.of_run(secret_file, seed=None)
    for purpose in PURPOSES:
        first_number, second_number = (
            streams.generator(purpose).random() for streams in (run_streams, second_run_streams)
        )
        assert (first_number == second_number) == (purpose != "noise")
    assert run_streams.seeds("teachers", num_seeds=3) == second_run_streams.seeds(
        "teachers", num_seeds=3
    )
    assert list(tmp_path.iterdir()) == [secret_file]
    assert secret_file.stat().st_mode & 0o777 == 0o600
    secret_file.chmod(0o644)  # others could read it
    with refused_parameter("secret", value=ANY, rule_words="mode 0600"):
        RandomStreams.of_run(secret_file, seed=None)
    secret_file.chmod(0o600)
    for text in ("0\n", "", "g" * 64 + "\n", "0" * 64):  # weak
        secret_file.write_text(text)
        with refused_parameter("secret", value=ANY, rule_words="64"):
            RandomStreams.of_run(secret_file, seed=None)
    first_streams = RandomStreams.from_secret()
    second_streams = RandomStreams.from_secret()
    assert first_streams.entropy != second_streams.entropy
    assert all(
        isinstance(streams.entropy, bytes) and len(streams.entropy) == 32
        for streams in (first_streams, second_streams)
    )
    assert repr(first_streams) == "RandomStreams(noise_is_fresh=False)"


def test_the_numbers_of_a_seed_never_change(tmp_path: Path) -> None:
    """The stream of each purpose from seed 5 is NumPy's PCG64, with the number of the purpose as spawn key.

    A run with this seed has the same streams, and writes no secret.
    """
    run_streams = RandomStreams.of_run(tmp_path / "training.secret", seed=5)
    for purpose_index, purpose in enumerate(PURPOSES):
        seed_sequence = np.random.SeedSequence(entropy=5, spawn_key=(purpose_index,))
        rng = RandomStreams(entropy=5).generator(purpose)
        assert rng.bit_generator.state == np.random.PCG64(seed_sequence).state
        assert (
            RandomStreams(entropy=5).seeds(purpose, num_seeds=3)
            == seed_sequence.generate_state(n_words=3, dtype=np.uint32).tolist()
            == run_streams.seeds(purpose, num_seeds=3)
        )
        assert rng.random() == run_streams.generator(purpose).random()
    assert not any(tmp_path.iterdir())
    first_seeds = {RandomStreams(entropy=5).seed(purpose) for purpose in PURPOSES}
    assert len(first_seeds) == len(PURPOSES)


def test_each_stream_of_a_secret_is_chacha20_with_its_own_key() -> None:
    """Without a seed, the stream of a purpose is ChaCha20, with a key by HMAC of the secret and the purpose."""
    streams = RandomStreams(entropy=SECRET_BYTES)
    for purpose in PURPOSES:
        key = hmac.digest(SECRET_BYTES, f"pate {purpose}".encode(), digest="sha256")
        rng = streams.generator(purpose)
        assert rng.bit_generator.state["state"]["keysetup"].astype("<u4").tobytes() == key
        key_stream = cipher_generator(key).bit_generator.random_raw(2).astype("<u8").tobytes()
        four_seeds = streams.seeds(purpose, num_seeds=4)
        assert four_seeds == np.frombuffer(key_stream, "<u4").tolist()
        assert streams.seeds(purpose, num_seeds=3) == streams.seeds(purpose, num_seeds=9)[:3]
    first_seeds = {streams.seed(purpose) for purpose in PURPOSES}
    assert len(first_seeds) == len(PURPOSES)


def test_a_classifier_without_a_seed_draws_from_chacha20() -> None:
    """A classifier without a seed draws its noise from ChaCha20; with a seed it draws from PCG64, and warns."""
    cipher_type = type(cipher_generator(SECRET_BYTES).bit_generator)
    noise = streams_of(random_state=None).generator(purpose="noise")
    assert type(noise.bit_generator) is cipher_type
    with pytest.warns(SeededNoise):
        noise = streams_of(random_state=5).generator(purpose="noise")
    assert type(noise.bit_generator) is np.random.PCG64


def test_a_students_seed_does_not_reveal_secret_noise() -> None:
    """Without a seed, a computation of the noise's state from a student's seed fails, as HMAC keys all streams.

    If both come from one seed of NumPy, a word of the noise's state can be computed, because every step of NumPy's
    mixing can be undone.
    """
    seeded_streams = RandomStreams(entropy=2**255 + 5)
    noise = seeded_streams.generator(purpose="noise").bit_generator.seed_seq
    assert _noise_word_behind(seeded_streams.seed(purpose="student")) == int(noise.pool[0])
    secret_streams = RandomStreams(entropy=SECRET_BYTES)
    key = secret_streams.generator(purpose="noise").bit_generator.state["state"]["keysetup"]
    assert _noise_word_behind(secret_streams.seed(purpose="student")) not in key


def _noise_word_behind(seed: int) -> int:
    """Computes the word of the noise that belongs to a student's seed, if both came from one `SeedSequence`.

    Such a computation is the reason why a secret has other streams than a seed.
    """
    constants = [0x43B0D7E5]
    for _ in range(40):
        constants.append(constants[-1] * 0x931E8875 % 2**32)
    # The constants that NumPy has used after eight words, which fill the pool, mix it and are mixed in.
    num_used = 4 + 12 + 16

    def hash_spawn_key(key: int) -> int:
        """Returns the hash of a word that is mixed into the pool last: the position of a purpose."""
        product = (key ^ constants[num_used]) * constants[num_used + 1] % 2**32
        return product ^ product >> 16

    # The constants of NumPy's `SeedSequence`: MIX_MULT_L and MIX_MULT_R, INIT_B and MULT_B.
    mix_left = 0xCA01F9DD
    mix_right = 0x4973F715
    output_start = 0x8B51F9DD
    output_factor = 0x58F38DED
    student, noise = 3, 2  # the positions of the two purposes
    inverse_factor = pow(output_start * output_factor, -1, 2**32)
    word = (seed ^ seed >> 16) * inverse_factor % 2**32 ^ output_start
    student_removed = (word ^ word >> 16) + mix_right * hash_spawn_key(key=student)
    before_purpose = student_removed * pow(mix_left, -1, 2**32) % 2**32
    mixed_with_noise = (mix_left * before_purpose - mix_right * hash_spawn_key(key=noise)) % 2**32
    return int(np.uint32(mixed_with_noise ^ mixed_with_noise >> 16))
