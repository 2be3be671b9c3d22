import passdown.agents as public


def test_every_public_name_is_there_once():
    assert len(set(public.__all__)) == len(public.__all__)
    assert public.__all__ == sorted(public.__all__, key=lambda name: (name.islower(), name))
    for name in public.__all__:
        assert getattr(public, name) is not None
