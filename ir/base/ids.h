// Typed indices. An OpId can index only the table of ops.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace mega {

template <class Tag>
struct Id {
  std::int32_t index = -1;
  constexpr auto operator<=>(const Id&) const = default;
  constexpr explicit operator bool() const { return index >= 0; }
};

// A vector indexed by one kind of Id. Ids stay valid: elements are never removed.
template <class Id, class T>
class Table {
 public:
  Id add(T value) {
    items_.push_back(std::move(value));
    return Id{static_cast<std::int32_t>(items_.size()) - 1};
  }
  T& operator[](Id id) { return items_.at(static_cast<std::size_t>(id.index)); }
  const T& operator[](Id id) const { return items_.at(static_cast<std::size_t>(id.index)); }
  std::size_t size() const { return items_.size(); }
  bool operator==(const Table&) const = default;
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::vector<T> items_;
};

}  // namespace mega
