// Our own mistakes: print what was believed and where, then abort (exit code 70 in tools/).
#pragma once

#include <string>

namespace mega {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

}  // namespace mega

// MEGA_CHECK(offset <= size, "offset " + std::to_string(offset) + " of " + std::to_string(size));
// The message is built only on failure.
#define MEGA_CHECK(condition, message)                                               \
  do {                                                                               \
    if (!(condition)) ::mega::check_failed(__FILE__, __LINE__, #condition, message); \
  } while (false)
