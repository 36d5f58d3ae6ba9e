// Bytes to values and back, with one description for both directions.
//
// A type takes part by a free or member template `fields(archive, value)` that names its fields in
// order: `template <class A> void fields(A& a, Foo& f) { a(f.x); a(f.y); }`. Little-endian, fixed
// width; containers carry a 32-bit count. Reading never trusts a count: it is held against the
// bytes that are left before anything is allocated, and a malformed input leaves ok() false.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/types.h"

namespace lares {

static_assert(std::endian::native == std::endian::little, "the wire format is the host's");

template <class T>
concept Scalar = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class ArchiveWriter {
 public:
  explicit ArchiveWriter(std::string& out) : out_(&out) {}

  template <Scalar T>
  void operator()(const T& value) {
    out_->append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <class Tag, class Rep>
  void operator()(const Id<Tag, Rep>& id) {
    (*this)(id.value);
  }
  template <class Tag>
  void operator()(const Amount<Tag>& amount) {
    (*this)(amount.count);
  }
  void operator()(const Duration& duration) { (*this)(duration.count()); }
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint32_t>(text.size()));
    out_->append(text);
  }
  template <class T>
  void operator()(const std::vector<T>& items) {
    (*this)(static_cast<std::uint32_t>(items.size()));
    if constexpr (Scalar<T>) {
      out_->append(reinterpret_cast<const char*>(items.data()), items.size() * sizeof(T));
    } else {
      for (const T& item : items) (*this)(item);
    }
  }
  template <class T>
  void operator()(const std::optional<T>& item) {
    (*this)(static_cast<std::uint8_t>(item.has_value()));
    if (item) (*this)(*item);
  }
  template <class T>
  requires(!Scalar<T>) void operator()(const T& value) {
    // `fields` only reads here; it takes a mutable reference so that one description serves both.
    fields(*this, const_cast<T&>(value));
  }

 private:
  std::string* out_;
};

class ArchiveReader {
 public:
  explicit ArchiveReader(std::string_view in) : in_(in) {}

  // False once anything was malformed; values read after that are default ones.
  [[nodiscard]] bool ok() const { return ok_; }
  // For a `fields` that reads a value it cannot accept.
  void refuse() {
    ok_ = false;
    in_ = {};
  }
  // True if everything was read and well-formed.
  [[nodiscard]] bool done() const { return ok_ && in_.empty(); }

  template <Scalar T>
  void operator()(T& value) {
    if (!need(sizeof value)) return;
    if constexpr (std::is_same_v<T, bool>) {
      value = in_.front() != 0;
    } else {
      std::memcpy(&value, in_.data(), sizeof value);
    }
    in_.remove_prefix(sizeof value);
  }
  template <class Tag, class Rep>
  void operator()(Id<Tag, Rep>& id) {
    (*this)(id.value);
  }
  template <class Tag>
  void operator()(Amount<Tag>& amount) {
    (*this)(amount.count);
  }
  void operator()(Duration& duration) {
    Duration::rep count = 0;
    (*this)(count);
    duration = Duration(count);
  }
  void operator()(std::string& text) {
    const std::uint32_t size = count(1);
    if (!ok_) return;
    text.assign(in_.substr(0, size));
    in_.remove_prefix(size);
  }
  template <class T>
  void operator()(std::vector<T>& items) {
    if constexpr (Scalar<T>) {
      const std::uint32_t size = count(sizeof(T));
      if (!ok_) return;
      items.resize(size);
      if (size != 0) std::memcpy(items.data(), in_.data(), size * sizeof(T));
      in_.remove_prefix(size * sizeof(T));
    } else {
      const std::uint32_t size = count(1);
      items.clear();
      for (std::uint32_t i = 0; i < size && ok_; ++i) {
        T item{};
        (*this)(item);
        if (ok_) items.push_back(std::move(item));
      }
    }
  }
  template <class T>
  void operator()(std::optional<T>& item) {
    std::uint8_t present = 0;
    (*this)(present);
    if (!ok_ || present == 0) {
      item.reset();
      return;
    }
    T value{};
    (*this)(value);
    item = std::move(value);
  }
  template <class T>
  requires(!Scalar<T>) void operator()(T& value) { fields(*this, value); }

 private:
  bool need(std::size_t bytes) {
    if (ok_ && in_.size() >= bytes) return true;
    ok_ = false;
    in_ = {};
    return false;
  }
  // Reads a count of items that take at least `each` bytes.
  std::uint32_t count(std::size_t each) {
    std::uint32_t size = 0;
    (*this)(size);
    if (!ok_ || size > in_.size() / each) {
      ok_ = false;
      in_ = {};
      return 0;
    }
    return size;
  }

  std::string_view in_;
  bool ok_ = true;
};

}  // namespace lares
