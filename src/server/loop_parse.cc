// Answers in parts: what is generated goes to the text worker, its readings go to the client.
#include <algorithm>

#include "core/hash.h"
#include "core/log.h"
#include "server/loop_core.h"

namespace lares::server {
namespace {

// A reading costs time in proportion to the text, so a longer text is read in larger pieces: the
// whole then costs so much a byte, however long it gets.
constexpr std::size_t kPieces = 128;

}  // namespace

void LoopCore::ask_parser(Request& request, std::uint32_t index) {
  Parsing& parsing = request.choices[index].parsing;
  if (parsing.waiting) return;
  const bool whole = parsing.finish != Finish::None;
  if (parsing.given_up) {
    if (whole) give_up_parsing(request, index);
    return;
  }
  const std::size_t fresh = parsing.text.size() - parsing.asked;
  if (!whole && (fresh == 0 || fresh < parsing.text.size() / kPieces)) return;
  parsing.waiting = true;
  send_text_job({request.id, index});
}

void LoopCore::send_parse(Request& request, std::uint32_t index) {
  Parsing& parsing = request.choices[index].parsing;
  parsing.asked = parsing.text.size();
  parsing.asked_whole = parsing.finish != Finish::None;
  // What was cut off has not its form either; as much is made of it as can be.
  const bool complete = parsing.finish == Finish::Stop && !parsing.lenient;
  worker::ParseChat ask{request.id.value,
                        index,
                        {.key = request.id.value, .text = parsing.text, .partial = !complete}};
  if (request.parser_known_to != text_number_) ask.chat.parser = request.parser;
  request.parser_known_to = text_number_;
  to_text(ask);
}

void LoopCore::handle(const worker::ChatParsed& message) {
  const auto job = take_text_job(message.request);
  const auto it = requests_.find(JobId{message.request});
  if (!job || !job->choice || it == requests_.end()) return;
  Parsing& parsing = it->second.choices[*job->choice].parsing;
  parsing.waiting = false;
  parsing.deaths = 0;
  tell_parsed(it->second, *job->choice, message.chat);
}

// May end the request.
void LoopCore::tell_parsed(Request& request, std::uint32_t index, const text::ParsedChat& parsed) {
  Choice& choice = request.choices[index];
  Parsing& parsing = choice.parsing;
  const bool whole = parsing.asked_whole;
  TextDelta delta{.choice = index};
  parsing.parts.advance(parsed, whole, hash_combine(request.id.value, index), delta);
  if (whole) {
    delta.finish = parsing.finish == Finish::Stop && parsing.parts.has_calls() ? Finish::ToolCalls
                                                                               : parsing.finish;
  }
  if (whole || !delta.text.empty() || !delta.reasoning.empty() || !delta.calls.empty()) {
    delta.logprobs.swap(parsing.logprobs);
    tell(request, std::move(delta));
  }
  if (!whole) return ask_parser(request, index);
  choice.told = true;
  const bool all = std::ranges::all_of(request.choices, &Choice::told);
  if (all) end_request(request.id, store::Outcome::Done, std::nullopt, "");
}

void LoopCore::parse_failed(Request& request, std::uint32_t index, const Error& error) {
  Parsing& parsing = request.choices[index].parsing;
  parsing.waiting = false;
  if (error.code == Code::NotFound) {  // Forgotten over others.
    request.parser_known_to = 0;
    parsing.asked = 0;
    return ask_parser(request, index);
  }
  if (!parsing.asked_whole) return ask_parser(request, index);  // More of it may make sense.
  if (parsing.lenient || parsing.finish != Finish::Stop) return give_up_parsing(request, index);
  parsing.lenient = true;
  ask_parser(request, index);
}

// The client gets what was generated as it is, unless it has had parts of it already.
void LoopCore::give_up_parsing(Request& request, std::uint32_t index) {
  Parsing& parsing = request.choices[index].parsing;
  parsing.waiting = false;
  parsing.given_up = true;
  if (parsing.finish == Finish::None) return;
  log_warn("an answer has not the form that its template expects", {{"request", request.id.value}});
  text::ParsedChat as_it_is;
  if (parsing.parts.empty()) as_it_is.content = parsing.text;
  parsing.asked_whole = true;
  tell_parsed(request, index, as_it_is);
}

}  // namespace lares::server
