// What megaplan does with files and standard output: whole or not at all.
#pragma once

#include <string>

#include "ir/base/result.h"

namespace mega::tool {

// By the first line: plans start with "megaplan". False for what cannot be read, or "-".
bool is_plan_file(const std::string& path);

// Writes beside `path` and renames, so that nobody ever sees half a file. Devices and pipes are
// written in place.
Status write_whole(const std::string& path, const std::string& text);

// False when nothing more can be written there. A reader that left early is no error: the
// process ends quietly.
Status print(const std::string& text);

}  // namespace mega::tool
