#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sluice::io {

/// A safetensors file as a reader of its own sees it, which a test edits and writes again.
struct FileContent {
  struct Tensor {
    std::string name;
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::string data;
  };

  static FileContent Read(const std::string& path);
  /// The tensors in this order, in header and data; `padding` are spaces behind the header.
  void Write(const std::string& path, std::size_t padding = 0) const;
  /// The tensor of the name. REQUIRES: there is one.
  Tensor& At(const std::string& name);
  void Remove(const std::string& name);

  std::map<std::string, std::string> metadata;
  std::vector<Tensor> tensors;
};

/// A header of any text, and what follows it.
std::string RawFile(const std::string& header, const std::string& data);

}  // namespace sluice::io
