"""Three ranks of which a mesh has some."""

import pool
import pytest


@pytest.fixture(scope="module")
def three():
    made = pool.Ranks(3)
    yield made.run
    made.close()


@pytest.mark.parametrize("dimensions", [1, 2])
def test_a_save_is_that_of_the_ranks_of_its_mesh(three, spill, dimensions):
    answers = three("layouts.two_of_three", directory=str(spill), dimensions=dimensions)
    for answer in answers[:2]:
        assert len(set(answer["same"])) == 1
        assert answer["error"] == f"NotFound: rank 0: there is no directory {spill}/none; make it first"
    assert sorted(path.name for path in spill.iterdir()) == ["rank-0-of-3", "rank-1-of-3"]
    for error in answers[0]["apart"]:
        assert error.startswith("InvalidArgument: parameter '1' is on a mesh of the ranks [0, 2], and "
                                "parameter '0' on one of [0, 1]; save and load need a mesh of all"), error
    assert answers[2] == {}


def test_a_save_of_slices_of_a_mesh_is_that_of_all_its_ranks(three, spill):
    for error in three("layouts.stages", directory=str(spill)):
        assert error.startswith("InvalidArgument: rank 2: the directory of a save is 5"), error
    assert sorted(path.name for path in spill.iterdir()) == [f"rank-{rank}-of-3" for rank in range(3)]
