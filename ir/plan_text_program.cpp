#include "ir/base/text.h"
#include "ir/plan_text.h"
#include "ir/plan_text_parser.h"

namespace mega {
namespace {

constexpr std::int64_t kMaxSlots = std::int64_t{1} << 20;

std::optional<Role> role_named(std::string_view name) {
  if (name == "parameter") return Role::Parameter;
  if (name == "gradient") return Role::Gradient;
  if (name == "activation") return Role::Activation;
  if (name == "copy") return Role::WorkingCopy;
  return std::nullopt;
}

}  // namespace

bool PlanParser::program_statement(TextCursor& line, std::string_view keyword) {
  if (place_ == Place::Nowhere) {
    return line.fail_last(quote(keyword) + " outside a program",
                          "it follows a line 'program NAME persistent=BYTES scratch=BYTES'");
  }
  close_repeat();
  place_ = Place::Program;
  if (keyword == "chunk") return chunk(line);
  if (keyword == "segment") return segment(line);
  return buffer(line, keyword);
}

bool PlanParser::program(TextCursor& line) {
  close_repeat();
  place_ = Place::Program;
  buffers_ = segments_ = chunks_ = sequences_ = NameIndex();
  arena_ = Bytes();
  plan_.programs.emplace_back().name = declare(line, programs_, "program");
  while (!line.error() && !line.at_end()) {
    if (line.accept_key("persistent")) {
      store(current().persistent, bytes(line, "a number of bytes"));
    } else if (line.accept_key("scratch")) {
      store(current().scratch, bytes(line, "a number of bytes"));
    } else {
      return line.fail_next("unknown part of a program", "use persistent= or scratch=");
    }
  }
  return !line.error() && grow_arena(line, current().persistent, 1) &&
         grow_arena(line, current().scratch, 1);
}

bool PlanParser::grow_arena(TextCursor& line, Bytes each, std::int64_t count) {
  const std::int64_t left = kMaxArenaBytes - arena_.count();
  if (count > 0 && each.count() > left / count) {
    return line.fail_last("the program's arena is over " + to_string(Bytes(kMaxArenaBytes)));
  }
  arena_ += each * count;
  return true;
}

bool PlanParser::chunk(TextCursor& line) {
  Chunk chunk;
  chunk.name = declare(line, chunks_, "chunk");
  while (!line.error() && !line.at_end()) {
    if (line.accept_key("slots")) {
      store(chunk.slot_count, line.integer("a number of slots", 0, kMaxSlots));
    } else if (line.accept_key("slot_bytes")) {
      store(chunk.slot_bytes, bytes(line, "a number of bytes"));
    } else {
      line.fail_next("unknown part of a chunk", "use slots= or slot_bytes=");
    }
  }
  current().chunks.push_back(chunk);
  return !line.error() && grow_arena(line, chunk.slot_bytes, chunk.slot_count);
}

// ---- buffers ------------------------------------------------------------------------------------

bool PlanParser::buffer(TextCursor& line, std::string_view keyword) {
  Buffer buffer;
  buffer.region = keyword == "slot"      ? Region::Slot
                  : keyword == "scratch" ? Region::Scratch
                                         : Region::Persistent;
  buffer.name = declare(line, buffers_, "buffer");
  bool good = !line.error();
  if (good && !line.peek('[')) {
    const auto word = line.word("an element type or a shape");
    const auto dtype = dtype_named(word.value_or(""));
    good = store(buffer.dtype, dtype);
    if (word && !dtype) {
      line.fail_last("unknown element type " + quote(*word), "use fp32, fp64 or int32");
    }
  }
  const int column = line.next_column();
  good = good && store(buffer.shape, shape(line));
  if (good && element_count(buffer.shape) > kMaxArenaBytes / size_of(buffer.dtype)) {
    good = line.fail(column, "the buffer is over " + to_string(Bytes(kMaxArenaBytes)));
  }
  good = good && buffer_place(line, buffer, keyword == "view");
  good = good && (line.at_end() || shard(line, buffer));
  current().buffers.add(std::move(buffer));
  return good;
}

// "in PARENT @16" of a view, "of CHUNK @16" of a slot's buffer, "@16" of the others.
bool PlanParser::buffer_place(TextCursor& line, Buffer& buffer, bool is_view) {
  if (is_view) {
    if (!line.expect_word("in")) return false;
    const int parent = use(line, buffers_, "buffer");
    if (parent < 0) return false;
    if (static_cast<std::size_t>(parent) >= current().buffers.size()) {
      return line.fail_last("the buffer is a view into itself");
    }
    buffer.parent = BufferId{parent};
    buffer.region = current().buffers[buffer.parent].region;
    buffer.chunk = current().buffers[buffer.parent].chunk;
  } else if (buffer.region == Region::Slot) {
    const auto chunk = of_chunk(line);
    if (!chunk) return false;
    buffer.chunk = *chunk;
    if (*chunk < 0 && current().chunks.size() == 1) buffer.chunk = 0;
    if (buffer.chunk < 0 && current().chunks.empty()) {
      return line.fail(line.next_column(), "a slot's buffer before the first chunk",
                       "add 'chunk NAME slots=N slot_bytes=N' before it");
    }
    if (buffer.chunk < 0) return line.fail_next("expected 'of' and the chunk's name");
  }
  if (!line.expect('@') || !store(buffer.offset, bytes(line, "an offset in bytes"))) return false;
  return !is_view || move(line, buffer);
}

// "+256*dp", "-1024*expert@edp": another place on each rank.
bool PlanParser::move(TextCursor& line, Buffer& buffer) {
  const bool is_back = line.accept('-');
  if (!is_back && !line.accept('+')) return true;
  Move move;
  if (!store(move.stride, line.integer("a number of bytes", 0, kMaxArenaBytes))) return false;
  if (is_back) move.stride = -move.stride;
  if (!line.expect('*') || !store(move.mesh, in_mesh(line)) ||
      !store(move.axes, axes(line, move.mesh))) {
    return false;
  }
  buffer.move = move;
  return true;
}

// The chunk that "of NAME" names, -1 without.
std::optional<int> PlanParser::of_chunk(TextCursor& line) {
  if (!line.accept_word("of")) return -1;
  const int chunk = use(line, chunks_, "chunk");
  return chunk < 0 ? std::nullopt : std::optional(chunk);
}

bool PlanParser::shard(TextCursor& line, Buffer& buffer) {
  Shard shard;
  const auto word = line.word("'parameter', 'gradient', 'activation' or 'copy'");
  if (!word) return false;
  const auto role = role_named(*word);
  if (!store(shard.role, role)) {
    return line.fail_last("unknown role " + quote(*word),
                          "use parameter, gradient, activation or copy");
  }
  if (line.accept('=')) {
    shard.name = tensor_of(buffer.name);
  } else if (!store(shard.name, line.name("the name of the global tensor"))) {
    return false;
  }
  if (!store(shard.mesh, in_mesh(line)) || !shard_shape(line, shard)) return false;
  buffer.shard = std::move(shard);
  return true;
}

bool PlanParser::shard_shape(TextCursor& line, Shard& shard) {
  if (!line.expect('[')) return false;
  while (!line.accept(']')) {
    if (!shard.axes.empty() && !line.expect(',')) return false;
    const auto size = line.integer("a dimension", 1, kMaxArenaBytes);
    if (!size) return false;
    shard.global_shape.push_back(*size);
    AxisSet split;
    if (line.accept('/') && !store(split, axes(line, shard.mesh))) return false;
    shard.axes.push_back(split);
  }
  return true;
}

}  // namespace mega
