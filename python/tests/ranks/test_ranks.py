"""Two ranks of torch.distributed: DDP and FSDP2, checkpoints of other numbers of ranks, errors."""

import re

import cases
import pool
import pytest
import torch
import torch.distributed.checkpoint as dcp

import sluice

PARAMETERS = 6


@pytest.fixture(scope="module")
def both():
    made = pool.Ranks()
    yield made.run
    made.close()


@pytest.fixture
def small_seed(seed):
    return seed % (1 << 31)


@pytest.mark.parametrize("kind,dtype,options", [
    ("fsdp", "float32", {"clip_norm": 0.05}),
    ("fsdp", "float32", {"early": True, "accumulate": True}),
    ("fsdp", "bfloat16", {"early": True, "states": "8bit"}),
    ("hsdp", "float32", {"clip_norm": 0.05}),
    ("ddp", "float32", {"clip_norm": 0.05}),
    ("ddp", "float32", {"overlap": True}),
    ("ddp", "bfloat16", {"master": False, "states": "bf16"}),
])
def test_two_ranks_have_the_bits_of_two_resident_ones(both, spill, small_seed, kind, dtype, options):
    answers = both("bits", spill=str(spill), seed=small_seed, kind=kind, dtype=dtype, **options)
    assert len({each for answer in answers for each in answer["parameters"]}) == 1
    assert len({each for answer in answers for each in answer["states"]}) == 1
    for answer in answers:
        assert answer["steps"] == [5] and answer["with states"] == PARAMETERS
        assert answer["budget"] == 1 << 20 and answer["read"] > 1 << 20
        if dtype == "float32":
            assert answer["losses"] == pytest.approx(answer["expected"], rel=1e-6, abs=0)
    if "clip_norm" in options:
        assert answers[0]["norm"] == answers[1]["norm"] > options["clip_norm"]


def test_an_update_goes_before_a_backward_that_writes_to_the_buckets_of_its_gradients(both, spill, seed):
    answers = [both("overlaps.unused_parameters", spill=str(spill), seed=seed, overlap=overlap)
               for overlap in (False, True)]
    assert len({each for answer in answers for each in answer}) == 1


def test_offloaded_activations_give_the_same_gradients(both, spill, small_seed):
    for answer in both("activations", spill=str(spill), seed=small_seed):
        for model in answer:
            assert len(set(model["gradients"])) == 1 and model["stashed"] >= 4


@pytest.mark.parametrize("options", [{"clip_norm": 0.05}, {"step_in_backward": True}])
def test_a_rank_may_have_no_element(both, spill, small_seed, options):
    answers = both("one_row", directory=str(spill), seed=small_seed, **options)
    assert answers[0]["norm"] == answers[1]["norm"]
    assert answers[0]["numbers"].keys() - {"step"} == answers[1]["numbers"].keys()
    assert answers[0]["numbers"]["compute_seconds"] > 0
    assert answers[1]["numbers"]["compute_seconds"] == answers[1]["numbers"]["wait_seconds"] == 0
    for answer in answers:
        assert answer["steps"] == [4, 4] and answer["off by"] < 1e-7


def test_replicas_are_rounded_alike_beside_a_parameter_without_elements(both, small_seed):
    answers = both("replica_beside_one_row", seed=small_seed, master=False)
    assert answers[0] == answers[1]


def test_states_are_laid_out_as_their_parameters(both, spill, small_seed):
    answers = both("layout", spill=str(spill), seed=small_seed)
    assert all(each[:3] == [True] * 3 for answer in answers for each in answer)
    counts = [[each[3] for each in answer[::3]] for answer in answers]
    assert counts == [[500 * 1152, 500, 19 * 1000, 19, 37, 1], [500 * 1152, 500, 18 * 1000, 18, 0, 0]]


@pytest.mark.parametrize("dtype,flat", [("float32", False), ("bfloat16", True)])
def test_a_checkpoint_goes_to_one_rank_and_back(both, make_runtime, spill, small_seed, dtype, flat):
    form = {"flatten_optimizer_state_dict": flat}
    options = {"seed": small_seed, "dtype": dtype, "spill": str(spill), **form}
    of_two = both("save", checkpoint=str(spill / "two"), **options)
    model = cases.layers(small_seed + 1, getattr(torch, dtype))
    optimizer = cases.adamw(model, make_runtime(dram="1MiB"))
    cases.load_into(model, optimizer, spill / "two", **form)
    loaded = [cases.digest(model.parameters()), cases.digest(cases.states_of(optimizer))]
    assert loaded == of_two[0]["saved"]
    dcp.save(cases.states(model, optimizer, **form), checkpoint_id=spill / "one")
    options["seed"] += 2
    assert both("load", checkpoint=str(spill / "one"), **options) == of_two


def test_a_whole_state_dict_is_distributed(both, spill, small_seed):
    for loaded, trained in both("full", spill=str(spill), seed=small_seed):
        assert len(set(loaded)) == 1 and len(set(trained)) == 1


def test_a_save_is_for_as_many_ranks(both, runtime, spill, small_seed):
    options = {"seed": small_seed, "spill": str(spill)}
    for kind in ("fsdp", "ddp"):
        (spill / kind).mkdir()
        for answer in both("save_own", directory=str(spill / kind), kind=kind, **options):
            assert answer["note"] == "two steps"
            assert answer["steps"] == [2] and answer["with states"] == PARAMETERS
            assert len(set(answer["parameters"])) == 1
    optimizer = cases.adamw(cases.layers(small_seed), runtime)
    with pytest.raises(sluice.InvalidArgument, match="has the save of 2 ranks, .* of 1: load it with"):
        optimizer.load(spill / "fsdp")
    for error in both("load_own", directory=str(spill / "ddp"), **options):
        assert "InvalidArgument" in error and "has the save of 1 rank, and" in error, error
    for error in both("load_own", directory=str(spill / "none"), **options):
        assert error.startswith("NotFound"), error


def test_a_save_of_which_ranks_have_unequal_parts_is_refused_by_all(both, spill):
    answers = both("saves.unequal_saves", directory=str(spill))
    for errors in answers:
        assert "DataLoss" in errors["other save"]
        assert "files of several saves" in errors["other save"]
        assert "(steps: 2 of rank 0, 1 of rank 1): load another" in errors["other save"]
        assert errors["no file"].startswith("NotFound: rank 1: "), errors["no file"]
        assert "rank-1-of-2" in errors["no file"]
        assert not errors["changed"]
        assert errors["damaged"].startswith("DataLoss: rank 1: "), errors["damaged"]
        assert errors["mended"] == "no error" and errors["steps"] == 2
        assert "rank 1: the save does not say how its elements are spread" in errors["no ranks"]
        assert errors["no folder"].startswith("InvalidArgument: rank 1: "), errors["no folder"]
    assert all("a state dict or a save first" in each["step"] for each in answers)


def test_a_rename_that_fails_on_one_rank_leaves_the_files_from_before(both, spill):
    for answer in both("saves.failed_rename", directory=str(spill)):
        assert answer["error"].startswith("InvalidArgument: rank 1: ") and "rank-1-of-2" in answer["error"]
        assert answer["left"] == ["optimizer.sluice"] and answer["same"]
        assert answer["loaded"] == "no error" and answer["steps"] == 1


def test_calls_of_which_a_rank_makes_another_are_refused_by_all(both, spill):
    answers = both("saves.unlike_calls", directory=str(spill))
    for rank, answer in enumerate(answers):
        errors = answer["errors"]
        assert errors["note"] == "InvalidArgument: rank 1: the note of a save is int; it must be text"
        for name in ("save", "load"):
            assert errors[name].startswith("InvalidArgument: rank 1: the directory of a save is "), name
        assert errors["none"] == f"NotFound: rank 0: there is no directory {spill}/none; make it first"
        other = f"FailedPrecondition: rank {1 - rank} is in another call than this one ("
        assert errors["save, load"].startswith(other), errors["save, load"]
        for error in errors["no group"]:
            assert error.startswith("FailedPrecondition: parameters are spread over several"), error
        # Half of 32 gradients of 1 are there. The rank without any takes part in their norm.
        assert answer["norm"] == pytest.approx(4) and answer["steps"] == 2 - rank
        assert errors["kind"].startswith("InvalidArgument: rank 0: "), errors["kind"]
        assert answer["left"] == ["optimizer.sluice"]


def test_a_save_that_ended_among_its_renames_is_completed(both, spill):
    for answer in both("saves.killed", directory=str(spill)):
        assert answer["loaded"] == [["no error", True, ["optimizer.sluice"]]] * 3
        assert answer["refused"] == "TierFull: rank 0: full"


def test_accelerate_moves_the_parameters_of_every_rank(both, spill, small_seed):
    for answer in both("accelerated.train", directory=str(spill), seed=small_seed):
        assert answer["type"] == "MULTI_CPU" and answer["moved"]
        assert answer["losses"] == pytest.approx(answer["expected"], rel=1e-6, abs=0)
        assert answer["again"] == answer["losses"][3:]


def test_a_save_of_another_layout_is_refused(both, spill):
    for rank, errors in enumerate(both("saves.other_layouts", directory=str(spill))):
        assert "at [1] of the mesh [2] with placements [Shard(0)], and was a" in errors["backwards"]
        assert "[1, 2] with placements [Replicate(), Shard(0)]" in errors["of two dimensions"]
        for name in ("backwards", "of two dimensions"):
            assert errors[name].startswith("InvalidArgument: rank 0: parameter '0' is a DTensor"), rank
            assert "torch.distributed.checkpoint" in errors[name]
            assert not errors[name + " changed"]


def test_each_rank_has_its_part_of_every_drive(both, spill):
    drives = [spill / name for name in ("first", "second")]
    for drive in drives:
        drive.mkdir(mode=0o700)
    for part in both("limits.parts", drives=[[str(drive) for drive in drives]] * 2):
        assert part["dram"] == 3 << 20 and part["nvme"] == 32 << 20
        assert part["drives"] == 2 and part["places"] >= part["nvme"]
        assert part["places"] <= part["nvme"] * (1 + 1 / 512) + 2 * (64 << 10), "spare places included"
        # pread and pwrite on a thread for each request in flight of a drive.
        assert part["threads"]["sluice-io"] == 2 * 3 and part["threads"]["sluice-worker"] == 2
        assert part["threads"]["sluice-update"] in (2, 3), "on one NUMA node the optimizer's own is one"


def test_whole_budgets_of_several_ranks_are_announced(both, spill):
    for lines in both("without_share", spill=str(spill)):
        assert len([line for line in lines if "2 ranks, and LOCAL_WORLD_SIZE is not set" in line]) == 1


@pytest.mark.parametrize("options", [
    {}, {"clip": 0.05}, {"clip_norm": 0.05}, {"step_in_backward": True},
    {"batches": 2, "clip_norm": 0.05}, {"batches": 2, "set_to_none": False},
])
def test_gradients_of_which_ranks_have_summands_are_summed(both, options):
    answers = both("layouts.sums", **options)
    assert answers[0] == answers[1] and answers[0]["off by"] < 1e-6
    norm, expected = answers[0]["norms"]
    assert norm == (pytest.approx(expected, rel=1e-5) if expected else None)


def test_parameters_of_the_first_fsdp_are_refused(both):
    refused = "InvalidArgument: parameter '.*{}' is managed by FullyShardedDataParallel, .* use fully_shard"
    for answer in both("layouts.first_fsdp"):
        for error, name in zip(answer["after"], ("0.weight", "_flat_param")):
            assert re.match(refused.format(name), error), error
        assert re.match(r"InvalidArgument: parameter '[01].weight' had shape \(4, 4\) when", answer["before"])


def test_a_forward_after_a_load_uses_what_was_loaded(both, spill):
    for answer in both("layouts.evaluated", directory=str(spill)):
        assert answer["loaded"] == answer["saved"] != answer["later"]


def test_calls_that_ranks_cannot_make_are_refused_by_name(both, spill, small_seed):
    for errors in both("misuse", spill=str(spill), seed=small_seed):
        assert "'0' is a DTensor, which FSDP2 gathers" in errors["overlap"]
        assert "was used up in backward (step_in_backward=True), and accumulation" in errors["accumulate"]
        assert "was used up in backward (step_in_backward=True), and clip_grad_norm_" in errors["clip"]
        assert "'exp_avg' in the state dict that is a plain tensor, the parameter a DTensor" in (
            errors["plain state"])
        assert "has placements (Replicate(),), the parameter (Shard(dim=0),)" in errors["placements"]
        assert "gradient of parameter '0' has placements (Replicate(),)" in errors["gradient"]
        assert "parameter '0' has other memory than when it was added" in errors["memory"]
        assert "'0' by the gradient of this rank alone" in errors["ddp"]
        assert "'0' has placements (Partial(sum),), so each rank has a summand" in errors["partial"]
        assert "make the optimizer after init_process_group" in errors["clip_norm"]
        assert not errors["changed"] and not errors["ddp changed"]
