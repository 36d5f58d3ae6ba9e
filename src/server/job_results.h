// What a job brought, as the journal keeps it: the answer of its path, and files beside it.
//
// Pictures are kept once, as files of their own, so that they can be fetched as such and taken away
// before anything else. Where an answer holds one in base64, it is kept with a mark in its place.
//
// Pure but for read_answer(), which belongs on the journal's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "store/journal.h"

namespace lares::server {

// Stands for the base64 of a file. No JSON text holds one by itself.
std::string file_mark(std::uint32_t index);

// The answer with its files where their marks are; nothing if one of them is not there any more.
std::optional<std::string> with_files(std::string_view answer,
                                      std::span<const store::Artefact> files);

// A job's answer as its path gave it; nothing if it, or what belongs into it, is not kept any more.
Result<std::optional<store::Artefact>> read_answer(store::Journal& journal, std::int64_t seq);

// "application/json", of an answer beside which lie so many files, and back.
std::string type_with_files(std::string_view type, std::size_t files);
struct AnswerType {
  std::string type;
  std::uint32_t files = 0;
};
AnswerType split_type(std::string_view kept);

}  // namespace lares::server
