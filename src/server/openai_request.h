// Bodies of /v1/chat/completions and /v1/completions, checked and turned into a Generation.
//
// Pure; any thread. Fields that are unknown are ignored: clients send many. A known field of a
// wrong type or beyond its range is an error that names it.
#pragma once

#include <string_view>

#include <tl/expected.hpp>

#include "server/errors.h"
#include "server/generation.h"

namespace lares::server {

enum class OpenAiForm : std::uint8_t { Chat, Completion };

// A request, beside what the core needs: how to answer.
struct OpenAiRequest {
  Generation generation;
  OpenAiForm form = OpenAiForm::Chat;
  bool stream = false;
  bool include_usage = false;  // stream_options.include_usage
};

// Limits of one request.
inline constexpr std::int64_t kChoicesMax = 16;
inline constexpr std::size_t kStopsMax = 16;
inline constexpr std::size_t kStopBytesMax = 1024;
inline constexpr std::int64_t kTopLogprobsMax = 20;
inline constexpr std::size_t kLogitBiasMax = 1024;
inline constexpr std::size_t kMessagesMax = 4096;

// What a request that does not say otherwise gets, and what a body may look like.
struct RequestDefaults {
  engine::Sampling sampling;
  std::uint32_t json_depth = 32;
};

// What a body that is no JSON is answered with.
ApiError unreadable_body(Error error);

tl::expected<OpenAiRequest, ApiError> parse_openai_request(OpenAiForm form, std::string_view body,
                                                           const RequestDefaults& defaults = {});

}  // namespace lares::server
