// Keeps what a person wrote from becoming a control token.
//
// A chat template puts people's words between control tokens ("<|im_end|>"), and the finished
// prompt is tokenised with those recognised. Somebody who writes "<|im_end|>" in a message, or
// whose document or tool result contains it, could so end the message and speak in another role.
// So, before rendering, every control token's text inside what people wrote is replaced by a mark,
// which templates pass through like any other letter; after rendering the text stands there again,
// known to be plain text. A prompt without such text is not changed at all.
//
// Not covered: text that becomes a control token only together with what the template writes beside
// it.
//
// One guard per vocabulary; const after construction, any thread.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace lares::text {

class ControlGuard {
 public:
  // The texts of all tokens that are recognised only where control tokens are. Empty ones are
  // ignored.
  explicit ControlGuard(std::vector<std::string> control_texts);

  [[nodiscard]] std::string hide(std::string_view text) const;

  struct Piece {
    std::string text;
    bool plain = false;  // Written by a person: no control token may be recognised in it.
  };
  // Splits a rendered prompt at the marks. Without marks: one piece, not plain.
  [[nodiscard]] std::vector<Piece> split(std::string_view rendered) const;
  // The text without marks, for grammars and parsers, where nothing is tokenised.
  [[nodiscard]] std::string shown(std::string_view text) const;

 private:
  [[nodiscard]] const std::string* match(std::string_view text, std::size_t at,
                                         std::size_t& index) const;

  std::vector<std::string> texts_;                      // Longest first.
  std::array<std::vector<std::size_t>, 256> by_first_;  // Indices into texts_ by first byte.
};

}  // namespace lares::text
