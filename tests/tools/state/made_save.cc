#include "tests/tools/state/made_save.h"

#include <random>
#include <span>

#include "gtest/gtest.h"
#include "runtime/optim/save/saved_tensors.h"
#include "runtime/optim/save/state_writer.h"
#include "tests/support/status_matchers.h"

namespace sluice::tools {
namespace {

std::vector<std::byte> RandomBytes(std::mt19937& random, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

}  // namespace

void MadeSave::Write(const std::string& directory) const {
  optim::SaveText text{.layout = optim::WriteLayout(layout), .step = step, .note = note};
  const auto writer =
      optim::StateWriter::Create(directory, optim::TensorsOfLayout(text.layout).value());
  ASSERT_THAT(writer, sluice::testing::IsOk());
  std::mt19937 random(7);
  std::size_t tensor = 0;
  text.steps = steps;
  text.shapes = shapes;
  for (const optim::LayoutGroup& group : layout.groups) {
    text.rates.push_back({.learning_rate = 0.1 + 0.2, .eps = 1e-300});
    for (const optim::LayoutParameter& parameter : group.parameters) {
      for (const auto& record : optim::RecordsOf(parameter, layout.kind, layout.state)) {
        std::vector<std::byte> bytes = RandomBytes(random, record.bytes());
        const std::span<std::byte> piece(bytes);
        ASSERT_THAT((*writer)->Write(tensor++, 0, std::span(&piece, 1)), sluice::testing::IsOk());
      }
    }
  }
  text.hashes = (*writer)->sums();
  ASSERT_THAT((*writer)->Commit(optim::WriteSaveText(text)), sluice::testing::IsOk());
}

}  // namespace sluice::tools
