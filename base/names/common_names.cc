#include "base/names/common_names.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace sluice::base {
namespace {

constexpr std::array kNames = {
    CommonName{"lr", "train.learning_rate"},
    CommonName{"base_lr", "train.learning_rate"},
    CommonName{"wd", "train.weight_decay"},
    CommonName{"decay", "train.weight_decay"},
    CommonName{"bs", "train.batch"},
    CommonName{"batch", "train.batch"},
    CommonName{"batch_size", "train.batch"},
    CommonName{"micro_batch_size", "train.batch"},
    CommonName{"per_device_train_batch_size", "train.batch"},
    CommonName{"accum", "train.micro_batches"},
    CommonName{"grad_accum", "train.micro_batches"},
    CommonName{"gradient_accumulation_steps", "train.micro_batches"},
    CommonName{"epochs", "train.steps"},
    CommonName{"num_train_epochs", "train.steps"},
    CommonName{"iters", "train.steps"},
    CommonName{"steps", "train.steps"},
    CommonName{"iterations", "train.steps"},
    CommonName{"max_iters", "train.steps"},
    CommonName{"max_steps", "train.steps"},
    CommonName{"num_steps", "train.steps"},
    CommonName{"warmup", "train.warmup_steps"},
    CommonName{"warmup_iters", "train.warmup_steps"},
    CommonName{"clip", "train.clip_norm"},
    CommonName{"grad_clip", "train.clip_norm"},
    CommonName{"gradient_clipping", "train.clip_norm"},
    CommonName{"max_norm", "train.clip_norm"},
    CommonName{"max_grad_norm", "train.clip_norm"},
    CommonName{"adam_beta1", "train.beta1"},
    CommonName{"adam_beta2", "train.beta2"},
    CommonName{"adam_epsilon", "train.eps"},
    CommonName{"epsilon", "train.eps"},
    CommonName{"optim", "train.optimizer"},
    CommonName{"dtype", "train.states"},
    CommonName{"optim_bits", "train.states"},
    CommonName{"activation_checkpointing", "train.recompute"},
    CommonName{"gradient_checkpointing", "train.recompute"},
    CommonName{"checkpointing", "train.recompute"},
    CommonName{"eval_every", "train.val_every"},
    CommonName{"eval_interval", "train.val_every"},
    CommonName{"eval_steps", "train.val_every"},
    CommonName{"eval_iters", "train.val_batches"},
    CommonName{"threads", "train.compute_threads"},
    CommonName{"num_threads", "train.compute_threads"},
    CommonName{"omp_num_threads", "train.compute_threads"},
    CommonName{"n_layer", "model.layers"},
    CommonName{"n_layers", "model.layers"},
    CommonName{"num_layers", "model.layers"},
    CommonName{"num_hidden_layers", "model.layers"},
    CommonName{"n_head", "model.heads"},
    CommonName{"num_heads", "model.heads"},
    CommonName{"num_attention_heads", "model.heads"},
    CommonName{"d_model", "model.width"},
    CommonName{"n_embd", "model.width"},
    CommonName{"embed_dim", "model.width"},
    CommonName{"dim", "model.width"},
    CommonName{"hidden", "model.width"},
    CommonName{"hidden_dim", "model.width"},
    CommonName{"hidden_size", "model.width"},
    CommonName{"block_size", "model.context"},
    CommonName{"context_length", "model.context"},
    CommonName{"ctx", "model.context"},
    CommonName{"max_seq_length", "model.context"},
    CommonName{"n_ctx", "model.context"},
    CommonName{"seq_len", "model.context"},
    CommonName{"gpu_memory", "tiers.hbm.bytes"},
    CommonName{"hbm", "tiers.hbm.bytes"},
    CommonName{"vram", "tiers.hbm.bytes"},
    CommonName{"cpu_memory", "tiers.dram.bytes"},
    CommonName{"dram", "tiers.dram.bytes"},
    CommonName{"host_memory", "tiers.dram.bytes"},
    CommonName{"pinned", "tiers.dram.bytes"},
    CommonName{"ram", "tiers.dram.bytes"},
    CommonName{"disk", "tiers.nvme.bytes"},
    CommonName{"nvme", "tiers.nvme.bytes"},
    CommonName{"ssd", "tiers.nvme.bytes"},
    CommonName{"nvme_path", "tiers.nvme.directory"},
    CommonName{"offload_dir", "tiers.nvme.directory"},
    CommonName{"offload_folder", "tiers.nvme.directory"},
    CommonName{"swap_dir", "tiers.nvme.directory"},
    CommonName{"aio_depth", "io.queue_depth"},
    CommonName{"iodepth", "io.queue_depth"},
    CommonName{"o_direct", "io.direct"},
    CommonName{"hugepages", "memory.huge_pages"},
    CommonName{"numa", "memory.numa_binding"},
    CommonName{"eviction", "scheduler.policy"},
    CommonName{"lookahead", "scheduler.prefetch_ops"},
    CommonName{"prefetch", "scheduler.prefetch_ops"},
    CommonName{"page_size", "page_bytes"},
    CommonName{"data", "train.texts"},
    CommonName{"dataset", "train.texts"},
    CommonName{"train_data", "train.texts"},
    CommonName{"data", "--text"},
    CommonName{"dataset", "--text"},
    CommonName{"input", "--text"},
    CommonName{"cfg", "--config"},
    CommonName{"override", "--set"},
    CommonName{"out", "--save"},
    CommonName{"output", "--save"},
    CommonName{"checkpoint", "--save-state"},
    CommonName{"ckpt", "--save-state"},
    CommonName{"checkpoint_dir", "--save-state"},
    CommonName{"output_dir", "--save-state"},
    CommonName{"save_dir", "--save-state"},
    CommonName{"continue", "--resume"},
    CommonName{"load", "--resume"},
    CommonName{"resume_from", "--resume"},
    CommonName{"resume_from_checkpoint", "--resume"},
    CommonName{"profile", "--trace"},
    CommonName{"check", "--verify"},
};

std::string Plain(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  if (const std::size_t dot = name.rfind('.'); dot != std::string_view::npos) {
    name.remove_prefix(dot + 1);
  }
  std::string plain(name);
  std::replace(plain.begin(), plain.end(), '-', '_');
  std::transform(plain.begin(), plain.end(), plain.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return plain;
}

}  // namespace

std::span<const CommonName> CommonNames() { return kNames; }

std::string OurName(std::string_view name, std::span<const std::string> candidates) {
  const std::string plain = Plain(name);
  for (const CommonName& each : kNames) {
    if (each.theirs != plain) continue;
    const auto ours = std::find(candidates.begin(), candidates.end(), each.ours);
    if (ours != candidates.end()) return *ours;
  }
  return {};
}

std::string_view OurKey(std::string_view name) {
  const std::string plain = Plain(name);
  const auto* const found = std::find_if(kNames.begin(), kNames.end(), [&](const CommonName& each) {
    return each.theirs == plain && !each.ours.starts_with("--");
  });
  return found == kNames.end() ? std::string_view() : found->ours;
}

}  // namespace sluice::base
