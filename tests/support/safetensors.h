// Reads a safetensors file for tests: an 8-byte length, a JSON header, then raw tensors.
// Understands what our own writers emit: no escapes in names, F32, F64 and I32 only.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace mega::testing {

struct StoredTensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;

  template <class T>
  std::vector<T> as() const {
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
  }
};

// The words of a JSON header in order: names without quotes, numbers, and brackets.
inline std::vector<std::string> header_words(const std::string& header) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < header.size();) {
    std::size_t end = at + 1;
    if (header[at] == '"') {
      end = std::min(header.find('"', at + 1), header.size() - 1) + 1;
      words.push_back(header.substr(at + 1, end - at - 2));
    } else if (std::isdigit(static_cast<unsigned char>(header[at])) != 0) {
      end = std::min(header.find_first_not_of("0123456789", at), header.size());
      words.push_back(header.substr(at, end - at));
    } else if (header[at] == '[' || header[at] == ']') {
      words.emplace_back(1, header[at]);
    }
    at = end;
  }
  return words;
}

// Empty when the file is missing or is not of this format.
inline std::map<std::string, StoredTensor> read_safetensors(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  std::uint64_t length = 0;
  if (text.size() < sizeof length) return {};
  std::memcpy(&length, text.data(), sizeof length);
  if (length > text.size() - sizeof length) return {};
  const std::size_t data = sizeof length + length;

  // name dtype F32 shape [ 2 3 ] data_offsets [ 0 24 ]
  std::map<std::string, StoredTensor> tensors;
  const std::vector<std::string> words = header_words(text.substr(sizeof length, length));
  std::size_t at = 0;
  while (at + 5 < words.size()) {
    StoredTensor tensor;
    const std::string& name = words[at];
    tensor.dtype = words[at + 2];
    if (words[at + 1] != "dtype" || words[at + 3] != "shape" || words[at + 4] != "[") return {};
    for (at += 5; at < words.size() && words[at] != "]"; ++at)
      tensor.shape.push_back(std::stoll(words[at]));
    if (at + 5 >= words.size() || words[at + 1] != "data_offsets") return {};
    const std::size_t first = std::stoull(words[at + 3]), last = std::stoull(words[at + 4]);
    if (first > last || data + last > text.size()) return {};
    tensor.bytes = text.substr(data + first, last - first);
    tensors[name] = tensor;
    at += 6;
  }
  return tensors;
}

}  // namespace mega::testing
