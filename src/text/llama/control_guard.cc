#include "text/llama/control_guard.h"

#include <algorithm>
#include <charconv>

namespace lares::text {
namespace {

// A mark is kOpen, the index of a text in decimal, kClose: private-use characters U+10FFF0 and
// U+10FFF1. Should somebody write those, they are hidden behind marks too.
constexpr std::string_view kOpen = "\xF4\x8F\xBF\xB0";
constexpr std::string_view kClose = "\xF4\x8F\xBF\xB1";

}  // namespace

ControlGuard::ControlGuard(std::vector<std::string> control_texts)
    : texts_(std::move(control_texts)) {
  texts_.emplace_back(kOpen);
  texts_.emplace_back(kClose);
  texts_.erase(std::remove(texts_.begin(), texts_.end(), std::string()), texts_.end());
  std::stable_sort(texts_.begin(), texts_.end(),
                   [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    by_first_[static_cast<unsigned char>(texts_[i].front())].push_back(i);
  }
}

const std::string* ControlGuard::match(std::string_view text, std::size_t at,
                                       std::size_t& index) const {
  for (const std::size_t i : by_first_[static_cast<unsigned char>(text[at])]) {
    if (text.substr(at, texts_[i].size()) == texts_[i]) {
      index = i;
      return &texts_[i];
    }
  }
  return nullptr;
}

std::string ControlGuard::hide(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    std::size_t index = 0;
    const std::string* found = match(text, at, index);
    if (found == nullptr) {
      out.push_back(text[at++]);
      continue;
    }
    out.append(kOpen).append(std::to_string(index)).append(kClose);
    at += found->size();
  }
  return out;
}

std::string ControlGuard::shown(std::string_view text) const {
  std::string out;
  for (const Piece& piece : split(text)) out += piece.text;
  return out;
}

std::vector<ControlGuard::Piece> ControlGuard::split(std::string_view rendered) const {
  std::vector<Piece> pieces;
  const auto add = [&](std::string_view text, bool plain) {
    if (text.empty()) return;
    if (!pieces.empty() && pieces.back().plain == plain) {
      pieces.back().text.append(text);
    } else {
      pieces.push_back(Piece{std::string(text), plain});
    }
  };
  while (!rendered.empty()) {
    const std::size_t open = rendered.find(kOpen);
    add(rendered.substr(0, open), false);
    if (open == std::string_view::npos) break;
    rendered.remove_prefix(open + kOpen.size());
    std::size_t index = texts_.size();
    const auto [end, error] =
        std::from_chars(rendered.data(), rendered.data() + rendered.size(), index);
    const auto digits = static_cast<std::size_t>(end - rendered.data());
    // Only marks of ours are there, unless a template cut one in two: then what is left is text.
    if (error != std::errc() || index >= texts_.size() ||
        rendered.substr(digits, kClose.size()) != kClose) {
      continue;
    }
    add(texts_[index], true);
    rendered.remove_prefix(digits + kClose.size());
  }
  return pieces;
}

}  // namespace lares::text
