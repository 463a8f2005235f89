#include "tools/support/wrap.h"

#include <algorithm>

namespace sluice::tools {
namespace {

/// Code points of UTF-8: each takes a column.
std::size_t ColumnsOf(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
}

/// The end of the word at `begin`. A number and its unit are one word.
std::size_t EndOfWord(std::string_view line, std::size_t begin) {
  const std::size_t end = std::min(line.find(' ', begin), line.size());
  const bool number = begin < end && line[begin] >= '0' && line[begin] <= '9';
  const bool unit = end + 1 < line.size() && line[end + 1] != ' ';
  return number && unit ? std::min(line.find(' ', end + 1), line.size()) : end;
}

/// One line without its newline.
std::string WrapLine(std::string_view line, std::size_t indent) {
  std::string wrapped;
  std::size_t columns = 0;
  while (!line.empty()) {
    const std::size_t spaces = std::min(line.find_first_not_of(' '), line.size());
    const std::size_t end = EndOfWord(line, spaces);
    const std::string_view word = line.substr(spaces, end - spaces);
    const std::size_t width = ColumnsOf(word);
    if (columns > indent && !word.empty() && columns + spaces + width > kColumns) {
      wrapped += "\n" + std::string(indent, ' ');
      columns = indent;
    } else {
      wrapped.append(spaces, ' ');
      columns += spaces;
    }
    wrapped += word;
    columns += width;
    line.remove_prefix(end);
  }
  return wrapped;
}

}  // namespace

std::string Wrap(std::span<const std::string> parts,
                 std::string_view separator,
                 std::size_t indent) {
  std::string text;
  std::size_t columns = 0;
  for (const std::string& part : parts) {
    const std::size_t width = ColumnsOf(part);
    if (!text.empty() && columns + separator.size() + width > kColumns) {
      text += "\n" + std::string(indent, ' ');
      columns = indent;
    } else if (!text.empty()) {
      text += separator;
      columns += separator.size();
    }
    text += part;
    columns += width;
  }
  return text;
}

std::string WrapLines(std::string_view text, std::size_t indent) {
  std::string wrapped;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    wrapped += WrapLine(text.substr(0, end), indent);
    if (end < text.size()) wrapped += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return wrapped;
}

}  // namespace sluice::tools
