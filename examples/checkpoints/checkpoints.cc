// Saves beside the steps, and a run that goes on from the last one:
//
//   checkpoints DIRECTORY   # run it twice: the first run ends early, the second goes on
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "examples/check.h"
#include "sluice/optimizer.h"
#include "sluice/runtime.h"

using namespace sluice::literals;

constexpr std::int64_t kElements = 1 << 20, kSaveEvery = 4, kLast = 8;

/// The parameter after some steps: momentum of 0.9, a rate of 0.01, and gradients of 0, 1, 2 ...
double Expected(std::int64_t steps) {
  double parameter = 0, momentum = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    momentum = 0.9 * momentum + static_cast<double>(step);
    parameter -= 0.01 * momentum;
  }
  return parameter;
}

/// Starts a save and gives it up, as a program does that has to end at once. True if the save of
/// before is still there.
bool GiveUpOne(sluice::OffloadedOptimizer& optimizer, const std::string& directory) {
  const std::string before = Check(sluice::OffloadedOptimizer::ReadSave(directory)).note;
  sluice::SaveHandle save = Check(optimizer.StartSave(directory, "given up"));
  if (!save.HasEveryPart()) save.GiveUp();
  const bool given_up = absl::IsCancelled(save.Wait());
  return given_up && Check(sluice::OffloadedOptimizer::ReadSave(directory)).note == before;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "Usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  const std::string directory = argv[1];
  sluice::RuntimeOptions options;
  options.page_bytes = 256_KiB;
  options.dram_bytes = 8_MiB;
  options.nvme_bytes = 32_MiB;
  const auto runtime = Check(sluice::Runtime::Create(options));
  const sluice::TensorId weights =
      Check(runtime->CreateTensor({.name = "weight", .shape = {kElements}}));
  const auto optimizer =
      Check(sluice::OffloadedOptimizer::Create(*runtime, {.kind = sluice::OptimizerKind::kSgd}));
  const sluice::GroupId group = Check(optimizer->AddGroup(
      {.name = "all", .parameters = {weights}, .rates = {.learning_rate = 0.01}}));
  std::vector<float> gradient(kElements);
  Check(optimizer->BindGradient(weights, {.bytes = std::as_bytes(std::span(gradient))}));

  const auto saved = sluice::OffloadedOptimizer::ReadSave(directory);
  if (saved.ok()) {
    Check(sluice::OffloadedOptimizer::VerifySave(directory).status());  // every checksum
    Check(optimizer->Load(directory));
    std::printf("goes on after step %jd, \"%s\"\n",
                static_cast<std::intmax_t>(saved->step),
                saved->note.c_str());
  } else if (!absl::IsNotFound(saved.status())) {
    Check(saved.status());  // a save that cannot be read is no reason to begin again
  }

  sluice::SaveHandle save;
  double slowed = 0;  // seconds for which updates waited for a save
  const std::int64_t end = saved.ok() ? kLast : kLast - 2;
  while (optimizer->step() < end) {
    gradient.assign(kElements, static_cast<float>(optimizer->step()));
    Check(optimizer->GradientReady(group));
    sluice::StepHandle step = Check(optimizer->Step());
    slowed += Check(step.Wait()).save_seconds;
    if (optimizer->step() % kSaveEvery != 0) continue;
    // Returns at once. The steps that follow hand over the old bytes as they change them.
    save = Check(optimizer->StartSave(directory, "step " + std::to_string(optimizer->step())));
  }
  Check(save.Wait());  // a save is on the disk only then
  const bool kept = GiveUpOne(*optimizer, directory);

  std::vector<float> values(kElements);
  Check(runtime->Read(weights, std::as_writable_bytes(std::span(values))));
  std::printf("step %jd: %.6f; updates waited %.3f s for saves\n",
              static_cast<std::intmax_t>(optimizer->step()),
              static_cast<double>(values[0]),
              slowed);
  return kept && std::abs(static_cast<double>(values[0]) - Expected(optimizer->step())) < 1e-6 ? 0
                                                                                               : 1;
}
