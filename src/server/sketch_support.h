// What of a plan can be carried out, and where. Parts of sketch_run.h. Pure; any thread.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/sketch_values.h"
#include "sketch/plan.h"

namespace lares::server {

// The value of an argument; "" if it was not said.
std::string_view argument(const sketch::Pairs& pairs, std::string_view name);

// A whole argument as a number.
template <class T>
T number(std::string_view text, T fallback) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? value : fallback;
}

// What the conditioning of words is kept under.
std::string words_key(const std::string& scope, const std::string& model, const std::string& text);

// By node, whose device has its value: what is made of latents alone is where it is used.
std::vector<std::string> models_of(const sketch::Plan& plan);

// What of the plan cannot be carried out yet, with the line of the sketch.
std::optional<std::string> cannot_run(const sketch::Plan& plan);
// The same of the lengths of its lists, which depend on what is given.
std::optional<std::string> too_many_chunks(const sketch::Plan& plan,
                                           const std::vector<SketchInput>& inputs);

}  // namespace lares::server
