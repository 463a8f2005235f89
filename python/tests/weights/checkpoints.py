"""Parts that the tests of streamed weights share: small random models, written as checkpoints."""

import itertools
import sys

import accelerate
import sluice.torch
import torch
import transformers
from safetensors.torch import save_file
from torch.utils.checkpoint import checkpoint

PAGE = 1 << 16


def llama(**changes):
    return transformers.LlamaConfig(**{
        "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 8, "vocab_size": 512,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
        "pad_token_id": 0, "eos_token_id": None, "bos_token_id": 1, **changes})


def gpt2(**changes):
    return transformers.GPT2Config(**{
        "n_embd": 128, "n_layer": 8, "n_head": 4, "vocab_size": 512, "n_positions": 256,
        "pad_token_id": 0, "eos_token_id": None, "bos_token_id": 1, **changes})


MODELS = {"llama": llama(), "gpt2": gpt2()}


def mixtral(**changes):
    return transformers.MixtralConfig(**{
        "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "vocab_size": 128,
        "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 8,
        "num_experts_per_tok": 2, "pad_token_id": 0, "eos_token_id": None, **changes})


def qwen3_moe(**changes):
    return transformers.Qwen3MoeConfig(**{
        "hidden_size": 64, "moe_intermediate_size": 32, "intermediate_size": 96,
        "num_hidden_layers": 4, "vocab_size": 128, "num_attention_heads": 4, "head_dim": 16,
        "num_key_value_heads": 2, "num_experts": 64, "num_experts_per_tok": 4, "pad_token_id": 0,
        "eos_token_id": None, "bos_token_id": 1, **changes})


MIXTURES = {"mixtral": mixtral(), "qwen3_moe": qwen3_moe()}


def mixture(kind, **changes):
    return kind(**{
        "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "vocab_size": 128,
        "num_attention_heads": 4, "num_key_value_heads": 2, "num_experts_per_tok": 2,
        "pad_token_id": 0, "eos_token_id": None, "bos_token_id": 1, **changes})


MORE_MIXTURES = {
    "deepseek_v3": mixture(
        transformers.DeepseekV3Config, n_routed_experts=8, moe_intermediate_size=32, n_group=2,
        topk_group=1, first_k_dense_replace=1, num_key_value_heads=4, q_lora_rank=32, kv_lora_rank=32,
        qk_rope_head_dim=16, qk_nope_head_dim=16, v_head_dim=16),
    "glm4_moe": mixture(
        transformers.Glm4MoeConfig, n_routed_experts=8, moe_intermediate_size=32, head_dim=16,
        first_k_dense_replace=1),
    "granitemoe": mixture(transformers.GraniteMoeConfig, num_local_experts=8),
    "olmoe": mixture(transformers.OlmoeConfig, num_experts=8),
    "phimoe": mixture(transformers.PhimoeConfig, num_local_experts=8),
    "qwen2_moe": mixture(
        transformers.Qwen2MoeConfig, num_experts=8, moe_intermediate_size=32,
        shared_expert_intermediate_size=64),
}


def write_model(folder, config, *, shards=False, dtype=torch.float32, seed=0, aligned=True, **options):
    """A checkpoint of random weights in ``folder``: one file, or several with an index."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config).to(dtype)
    model.save_pretrained(folder, max_shard_size="1MB" if shards else "1GB", **options)
    for path in folder.glob("*.safetensors") if aligned else ():
        align(path)
    return folder


def align(path):
    """Begins the tensors of a file at a multiple of 64, as those in PyTorch's memory."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = content[8:end] + b" " * (-end % 64)
    path.write_bytes(len(header).to_bytes(8, "little") + header + content[end:])


def resident(folder, dtype=torch.float32, **options):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **options)


def at_phase(tensor, phase):
    """A copy of a tensor at an address that is ``phase`` modulo 64, by which some products differ."""
    room = torch.empty(tensor.nbytes + 128, dtype=torch.uint8)
    begin = (phase - room.data_ptr()) % 64
    copy = room[begin:begin + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
    return copy.copy_(tensor)


def on_meta(config, kind=transformers.AutoModelForCausalLM, dtype=torch.float32):
    with accelerate.init_empty_weights(include_buffers=False):
        return kind.from_config(config, dtype=dtype).eval()


def bytes_of(model):
    return sum(parameter.nbytes for parameter in model.parameters())


def save(path, module):
    """The state of a module as one safetensors file."""
    save_file({name: tensor.contiguous() for name, tensor in module.state_dict().items()}, path)
    return path


def stream_of(model, path, share=0.5, **options):
    """The model as a stream, under a budget of a share of its weights."""
    dram = int(bytes_of(model) * share)
    return sluice.torch.stream_weights(model, path, **{"dram": dram, "page_bytes": PAGE, **options})


def leases_of(stream):
    """Leases of units, and experts in use; those of experts that merely stay in dram do not count."""
    leased = [phrase for phrase in stream._runtime._session.in_use() if "lease" in phrase]
    return leased + ([] if stream._experts is None else stream._experts.residents.in_use)


def interrupted(call, at, files, begun=lambda: True):
    """Whether Ctrl-C comes at an event of a call: the ``at``-th in ``files`` once ``begun``."""
    events = itertools.count(1)

    def interrupt(frame, event, arg):
        if event in ("call", "c_return", "return") and frame.f_code.co_filename in files:
            if begun() and next(events) == at:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(interrupt)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


class Blocks(torch.nn.Module):
    """Linear layers in a ModuleList between two others; under checkpoint if ``use_reentrant`` is set."""

    def __init__(self, width=128, blocks=8):
        super().__init__()
        self.first = torch.nn.Linear(width, width)
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(blocks))
        self.last = torch.nn.Linear(width, width)
        self.use_reentrant = None

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            if self.use_reentrant is None:
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=self.use_reentrant)
        return self.last(x)


class Block(torch.nn.Module):
    """Two linear layers, between which ``error`` is raised, or modules of ``inner`` run."""

    def __init__(self, width):
        super().__init__()
        self.up = torch.nn.Linear(width, 2 * width)
        self.down = torch.nn.Linear(2 * width, width)
        self.error = None
        self.inner = ()

    def forward(self, x):
        x = torch.nn.functional.gelu(self.up(x))
        for module in self.inner:
            x = x + module(x[:, :128]).repeat(1, 2)
        if self.error is not None:
            raise self.error
        return self.down(x)
