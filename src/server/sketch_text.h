// Texts and vectors in sketches: cutting a text into chunks, what models are asked, and files for
// what is no picture.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/generation.h"
#include "server/sketch_run.h"

namespace lares::server {

// Most chunks of one sketch.
inline constexpr std::size_t kChunksMax = 4096;
// Bytes that stand for one token where a text is cut: no vocabulary is asked. English has about
// four to a token, so chunks are about as long as was said.
inline constexpr std::size_t kTokenBytes = 4;

// Pieces of at most so many tokens, each beginning so many before the end of the one ahead of it;
// cut between words where there are any, and never inside a code point. At least one.
std::vector<std::string> chunks_of(std::string_view text, std::uint32_t tokens,
                                   std::uint32_t overlap);
std::vector<std::string> chunks_of(std::string_view text, const sketch::Node& chunk);

// What is asked of a chat model and of one for embeddings; whose they are is for the caller to say.
Generation generation_for(const SketchAsk& ask);
Generation generation_for(const SketchEmbed& embed);

// A vector as NumPy's file of float32, and as a JSON array.
std::string npy_of(const std::vector<float>& vector);
std::string json_of(const std::vector<float>& vector);

}  // namespace lares::server
