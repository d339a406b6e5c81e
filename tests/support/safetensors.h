// Reads a safetensors file for tests: an 8-byte length, a JSON header, then raw tensors.
// Understands what our own writers emit: no escapes in names, F32, F64 and I32 only.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
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

// Empty when the file is missing or is not of this format.
inline std::map<std::string, StoredTensor> read_safetensors(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  std::uint64_t length = 0;
  if (text.size() < sizeof length) return {};
  std::memcpy(&length, text.data(), sizeof length);
  if (length > text.size() - sizeof length) return {};
  const std::string header = text.substr(sizeof length, length);
  const std::size_t data = sizeof length + length;

  static const std::regex kEntry(
      R"re("([^"]+)"\s*:\s*\{\s*"dtype"\s*:\s*"(\w+)"\s*,\s*"shape"\s*:\s*\[([\d,\s]*)\]\s*,)re"
      R"re(\s*"data_offsets"\s*:\s*\[\s*(\d+)\s*,\s*(\d+)\s*\]\s*\})re");
  std::map<std::string, StoredTensor> tensors;
  for (std::sregex_iterator i(header.begin(), header.end(), kEntry), end; i != end; ++i) {
    StoredTensor tensor;
    tensor.dtype = (*i)[2];
    static const std::regex kNumber(R"(\d+)");
    const std::string shape = (*i)[3];
    for (std::sregex_iterator n(shape.begin(), shape.end(), kNumber); n != end; ++n)
      tensor.shape.push_back(std::stoll((*n).str()));
    const std::size_t first = std::stoull((*i)[4]), last = std::stoull((*i)[5]);
    if (first > last || data + last > text.size()) return {};
    tensor.bytes = text.substr(data + first, last - first);
    tensors[(*i)[1]] = tensor;
  }
  return tensors;
}

}  // namespace mega::testing
