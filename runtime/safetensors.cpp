#include "runtime/safetensors.h"

#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "runtime/alarm.h"
#include "runtime/metrics.h"

namespace mega::runtime {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

std::string header_of(std::span<const GlobalTensor> tensors) {
  std::string json = "{";
  std::int64_t offset = 0;
  for (const GlobalTensor& tensor : tensors) {
    const auto bytes = static_cast<std::int64_t>(tensor.data.size() * sizeof(float));
    if (json.size() > 1) json += ",";
    json += json_string(tensor.name) + ":{\"dtype\":\"F32\",\"shape\":" + to_string(tensor.shape) +
            ",\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(offset + bytes) +
            "]}";
    offset += bytes;
  }
  json += "}";
  json.resize(static_cast<std::size_t>(round_up(static_cast<std::int64_t>(json.size()), 8)), ' ');
  return json;
}

Errors write_error(const std::string& path, const std::string& reason) {
  Errors errors = failure("cannot write: " + reason);
  errors.front().file = path;
  return errors;
}

}  // namespace

Status write_safetensors(const std::string& path, std::span<const GlobalTensor> tensors) {
  const std::string temporary = path + ".partial";
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  const std::string json = header_of(tensors);
  const auto length = std::bit_cast<std::array<char, 8>>(static_cast<std::uint64_t>(json.size()));
  file.write(length.data(), length.size());
  file.write(json.data(), static_cast<std::streamsize>(json.size()));
  for (const GlobalTensor& tensor : tensors) {
    file.write(reinterpret_cast<const char*>(tensor.data.data()),
               static_cast<std::streamsize>(tensor.data.size() * sizeof(float)));
  }
  file.close();
  std::string reason = file ? "" : std::strerror(errno);
  std::error_code error;
  if (file) {
    std::filesystem::rename(temporary, path, error);
    if (error) reason = error.message();
  }
  if (reason.empty()) return Ok{};
  std::filesystem::remove(temporary, error);
  return write_error(path, reason);
}

}  // namespace mega::runtime
