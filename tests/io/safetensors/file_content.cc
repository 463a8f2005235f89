#include "tests/io/safetensors/file_content.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sluice::io {
namespace {

using ContentJson = nlohmann::ordered_json;

}  // namespace

FileContent FileContent::Read(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  FileContent content;
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const auto json = ContentJson::parse(bytes.substr(8, header));
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") {
      content.metadata = value.get<std::map<std::string, std::string>>();
      continue;
    }
    const auto begin = value["data_offsets"][0].get<std::uint64_t>();
    const auto end = value["data_offsets"][1].get<std::uint64_t>();
    content.tensors.push_back({name,
                               value["dtype"],
                               value["shape"].get<std::vector<std::int64_t>>(),
                               bytes.substr(8 + header + begin, end - begin)});
  }
  return content;
}

void FileContent::Write(const std::string& path, std::size_t padding) const {
  ContentJson json;
  std::string data;
  for (const Tensor& tensor : tensors) {
    json[tensor.name] = {{"data_offsets", {data.size(), data.size() + tensor.data.size()}},
                         {"shape", tensor.shape},
                         {"dtype", tensor.dtype}};
    data += tensor.data;
  }
  if (!metadata.empty()) json["__metadata__"] = metadata;
  std::ofstream(path, std::ios::binary) << RawFile(json.dump() + std::string(padding, ' '), data);
}

FileContent::Tensor& FileContent::At(const std::string& name) {
  const auto found = std::find_if(
      tensors.begin(), tensors.end(), [&](const Tensor& each) { return each.name == name; });
  EXPECT_NE(found, tensors.end()) << name;
  return *found;
}

void FileContent::Remove(const std::string& name) {
  std::erase_if(tensors, [&](const Tensor& each) { return each.name == name; });
}

std::string RawFile(const std::string& header, const std::string& data) {
  const std::uint64_t size = header.size();
  std::string length(sizeof(size), '\0');
  std::memcpy(length.data(), &size, sizeof(size));
  return length + header + data;
}

}  // namespace sluice::io
