#include "tests/runtime/optim/save_file.h"

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string_view>

#include "gtest/gtest.h"
#include "runtime/optim/save/saved_tensors.h"
#include "runtime/optim/save/state_file.h"

namespace sluice::optim {
namespace {

constexpr std::size_t kMarkBytes = sizeof(kStateFileMark);

/// A save in pieces: `before`: mark and records.
struct SaveFile {
  std::string before;
  nlohmann::json text;
};

SaveFile Take(const std::string& directory) {
  const auto reader = StateFileReader::Open(directory).value();
  return {.before = ReadSaveFile(directory).substr(0, reader->records_end()),
          .text = nlohmann::json::parse(reader->text())};
}

void Put(const std::string& directory, const SaveFile& save) {
  const std::string text = save.text.dump();
  const StateFileTrailer trailer = TrailerOf(save.before.size(), text);
  std::ofstream file(StateFilePath(directory), std::ios::binary | std::ios::trunc);
  file << save.before << text
       << std::string_view(reinterpret_cast<const char*>(&trailer), sizeof(trailer));
  ASSERT_TRUE(file.flush().good());
}

}  // namespace

std::string ReadSaveFile(const std::string& directory) {
  std::ifstream stream(StateFilePath(directory), std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void RewriteSaveText(const std::string& directory,
                     const std::function<void(nlohmann::json& text)>& change) {
  SaveFile save = Take(directory);
  change(save.text);
  Put(directory, save);
}

void RewriteSaveAsFormat1(const std::string& directory) {
  SaveFile save = Take(directory);
  save.before[kMarkBytes - 1] = 1;
  nlohmann::json hashes = nlohmann::json::array();
  std::size_t at = kMarkBytes;
  const auto tensors = TensorsOfLayout(save.text["layout"]);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  for (const SavedTensor& tensor : *tensors) {
    hashes.push_back(std::uint64_t{XXH3_64bits(save.before.data() + at, tensor.bytes)});
    at += tensor.bytes;
  }
  EXPECT_EQ(at, save.before.size());
  save.text["hashes"] = hashes;
  Put(directory, save);
}

}  // namespace sluice::optim
