// A request's way to the scheduler and out again.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/assert.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/text.h"
#include "server/job_link.h"
#include "server/loop_core.h"
#include "server/shared_words.h"

namespace lares::server {
namespace {

// Who may hit whose cached prefixes: the same member with the same model.
sched::PrefixScope prefix_scope(const Request& request) {
  constexpr std::uint64_t kEverybody = ~std::uint64_t{0};
  return {.own = hash_combine(mix64(request.generation.member.id.value), request.model),
          .shared = hash_combine(mix64(kEverybody), request.model),
          .shared_blocks = request.shared_tokens / sched::kBlockTokens};
}

}  // namespace

std::optional<std::uint32_t> LoopCore::find_model(const std::string& name) const {
  const std::string& wanted = name.empty() || name == "default" ? options_.default_model : name;
  for (std::uint32_t i = 0; i < models_.size(); ++i) {
    const ModelState& model = models_[i];
    if (model.embeds || model.gone) continue;
    const bool usable = model.at != ModelState::At::Failed &&
                        (model.at == ModelState::At::Probing || model.info.can.generates);
    if (wanted.empty() ? usable : models_[i].entry.name == wanted) return i;
  }
  return std::nullopt;
}

std::string LoopCore::failures() const {
  std::vector<std::string> why;
  for (const ModelState& model : models_) {
    if (!model.embeds && !model.gone && !model.error.empty())
      why.push_back(fmt::format("{} ({})", model.entry.name, model.error));
  }
  return fmt::format("{}", fmt::join(why, "; "));
}

std::string LoopCore::model_names() const {
  std::vector<std::string_view> names;
  for (const ModelState& model : models_) {
    if (!model.embeds && !model.gone) names.push_back(model.entry.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// False if there is no such class: the request has ended.
bool LoopCore::find_class(Request& request) {
  const Generation& g = request.generation;
  auto cls = std::ranges::find(options_.classes, g.cls);
  const bool implied = (request.embeds() && g.cls == kEmbeddingClass) ||
                       (request.sketches() && g.cls == kImageClass);
  if (cls == options_.classes.end() && implied) {
    request.generation.cls = "chat";  // Always configured.
    cls = std::ranges::find(options_.classes, g.cls);
  }
  if (cls == options_.classes.end()) {
    const std::vector<std::string_view> names(options_.classes.begin(), options_.classes.end());
    fail_request(
        request.id,
        Error{Code::Invalid, fmt::format("there is no class `{}`.{} Classes: {}.", g.cls,
                                         suggestion(g.cls, names), fmt::join(names, ", "))},
        "class_unknown");
    return false;
  }
  request.cls = static_cast<std::uint32_t>(cls - options_.classes.begin());
  return true;
}

void LoopCore::begin(Request& request) {
  if (!find_class(request)) return;
  const Generation& g = request.generation;
  if (request.sketches()) {
    if (find_sketch_models(request)) start_sketch(request);
    return;
  }
  const auto model = model_for(request);
  if (!model && (g.model.empty() || g.model == "default")) {
    return fail_request(
        request.id, Error{Code::Unavailable, fmt::format("no model can be used: {}", failures())},
        "model_failed");
  }
  if (!model) {
    std::vector<std::string_view> names;
    for (const ModelState& m : models_) {
      if (!m.embeds && !m.gone) names.push_back(m.entry.name);
    }
    return fail_request(
        request.id,
        Error{Code::NotFound, fmt::format("there is no model `{}`.{} Models: {}.", g.model,
                                          suggestion(g.model, names), model_names())},
        "model_not_found");
  }
  request.model = *model;
  const bool twin_failed =
      request.embeds() && models_[models_[*model].twin].at == ModelState::At::Failed;
  const ModelState& state = models_[twin_failed ? models_[*model].twin : *model];
  if (state.at == ModelState::At::Failed) {
    return fail_request(request.id,
                        Error{Code::Unavailable, fmt::format("model {} cannot be used: {}",
                                                             state.entry.name, state.error)},
                        "model_failed");
  }
  if (state.at == ModelState::At::Probing) return;  // Begun again once it is known.
  if (g.keep) {
    models_[*model].keep = *g.keep;
    tell_need(*model);
  }
  if (g.unload_only) {
    accept(request);
    return end_request(request.id, store::Outcome::Done, std::nullopt, "");
  }
  if (state.info.can.pictures) {
    return fail_request(
        request.id,
        Error{Code::Unsupported, fmt::format("{} makes pictures; ask /v1/images/generations or "
                                             "/v1/sketches for them, or name another model",
                                             state.entry.name)},
        "model_cannot_generate");
  }
  if (!request.embeds() && !state.info.can.generates) {
    return fail_request(
        request.id,
        Error{Code::Unsupported, fmt::format("{} makes embeddings and no text; send its texts to "
                                             "/v1/embeddings, or name another model",
                                             state.entry.name)},
        "model_cannot_generate");
  }
  ask_text(request);
}

void LoopCore::ask_text(Request& request) {
  request.at = Request::At::Text;
  request.text_from = now();
  ask_vocabulary(request.model);
  std::size_t bytes = 0;
  if (const auto* chat = std::get_if<ChatPrompt>(&request.generation.prompt)) {
    bytes = chat->messages.size() + chat->tools.size() + chat->schema.size();
  } else if (const auto* text = std::get_if<TextPrompt>(&request.generation.prompt)) {
    bytes = text->text.size();
  } else if (const auto* embed = std::get_if<EmbedPrompt>(&request.generation.prompt)) {
    for (const auto& input : embed->inputs) {
      if (const auto* one = std::get_if<std::string>(&input)) bytes += one->size();
    }
  }
  if (bytes > options_.prompt_bytes_max) {
    return fail_request(
        request.id,
        Error{Code::TooLarge, fmt::format("the prompt has {} bytes; at most {} are taken", bytes,
                                          options_.prompt_bytes_max)},
        "prompt_too_large");
  }
  send_text_job({request.id});
}

void LoopCore::on_tokens(Request& request, text::Rendered rendered) {
  std::vector<std::int32_t>& tokens = rendered.tokens;
  const ModelState& model = models_[request.model];
  const Generation& g = request.generation;
  request.prompt_tokens = static_cast<std::uint32_t>(tokens.size());
  if (tokens.empty()) {
    return fail_request(request.id, Error{Code::Invalid, "the prompt is empty"}, "prompt_empty");
  }
  const auto foreign = std::ranges::find_if(tokens, [&](auto t) { return !model.pieces->has(t); });
  if (foreign != tokens.end()) {
    return fail_request(
        request.id,
        Error{Code::Invalid, fmt::format("token {} is not in the vocabulary of {} (0 to {})",
                                         *foreign, model.entry.name, model.pieces->size() - 1)},
        "token_unknown");
  }
  const std::uint64_t wanted = std::uint64_t{request.prompt_tokens} + g.max_tokens.value_or(1);
  if (wanted > model.context) {
    return fail_request(
        request.id,
        Error{Code::Invalid,
              fmt::format(
                  "the prompt has {} tokens and {} are asked for, {} in all; {} takes {}. Shorten "
                  "the prompt or ask for less.",
                  request.prompt_tokens, g.max_tokens.value_or(1), wanted, model.entry.name,
                  model.context)},
        "context_length_exceeded");
  }
  request.output_max = g.max_tokens.value_or(
      std::min(options_.output_tokens, model.context - request.prompt_tokens));
  const auto* chat = std::get_if<ChatPrompt>(&g.prompt);
  // Tools may be written before the shared words, and are somebody's own.
  if (chat == nullptr || chat->tools.empty())
    request.shared_tokens = shared_tokens(options_.shared_prompts, *model.pieces, tokens);
  request.choices.resize(g.n);
  std::uint64_t seed = g.seed.value_or(seed_state_ = mix64(seed_state_ + request.id.value));
  // The noise that the rest of its text is drawn by is that of its beginning.
  if (g.job) seed = g.job->resume().seed.value_or(seed);
  for (std::uint32_t i = 0; i < g.n; ++i) {
    Choice& choice = request.choices[i];
    choice.tokens = i + 1 < g.n ? tokens : std::move(tokens);
    std::vector<std::string> all = g.stop;
    all.insert(all.end(), rendered.stops.begin(), rendered.stops.end());
    choice.text = TextAssembler(std::move(all));
    choice.sampling = g.sampling;
    choice.sampling.seed = seed;
    choice.sampling.choice = i;
    resume(request, i);
    sched::append_prefix_keys(prefix_scope(request), choice.tokens, choice.keys);
  }
  request.constraint = std::move(rendered.constraint);
  request.shown = std::move(rendered.shown);
  request.parser = std::move(rendered.parser);
  request.at = Request::At::Scheduled;
  request.scheduled_at = now();
  schedule(request);
}

// The scheduler hears of a member's weight and limits when they are new or have changed.
void LoopCore::tell_limits(const MemberShare& member) {
  const auto [it, fresh] = told_limits_.try_emplace(member.id, member);
  if (!fresh && it->second == member) return;
  it->second = member;
  events_.emplace_back(sched::MemberChanged{member.id,
                                            {.weight = member.weight_permille,
                                             .running_max = member.limits.in_flight,
                                             .waiting_max = member.limits.queued}});
}

void LoopCore::schedule(Request& request) {
  const ModelState& model = models_[request.model];
  const std::uint32_t pool = model.pool_tokens / sched::kBlockTokens * sched::kBlockTokens;
  if (model.at == ModelState::At::Ready && request.prompt_tokens + request.output_max > pool) {
    if (request.generation.max_tokens || request.prompt_tokens >= pool) {
      return fail_request(request.id, Error{Code::Invalid, too_long_for_pool(request)},
                          "kv_never_fits");
    }
    request.output_max = pool - request.prompt_tokens;
  }
  tell_limits(request.generation.member);
  if (request.generation.queue_events) queue_told_at_ = {};  // It hears at once.
  for (std::uint32_t i = 0; i < request.choices.size(); ++i) {
    Choice& choice = request.choices[i];
    choice.sched = JobId{++next_sched_id_};
    choices_[choice.sched] = {request.id, i};
    const auto& keys = event_keys_.emplace_back(choice.keys);
    const auto known = static_cast<std::uint32_t>(choice.tokens.size());
    const std::uint32_t made = known - request.prompt_tokens;  // By an earlier attempt.
    events_.emplace_back(
        sched::Submitted{.job = choice.sched,
                         .member = request.generation.member.id,
                         .cls = ClassId{request.cls},
                         .task = request.generation.task,
                         .model = ModelId{request.model},
                         .prompt = known,
                         .output_max = std::max(request.output_max, made + 1) - made,
                         .blocks = keys});
  }
}

std::string LoopCore::too_long_for_pool(const Request& request) const {
  const ModelState& model = models_[request.model];
  return fmt::format(
      "the prompt has {} tokens and up to {} may follow; the KV pool of {} holds {}. Shorten the "
      "prompt, "
      "ask for fewer tokens, or give the model a larger pool (device.pool_tokens).",
      request.prompt_tokens, request.output_max, model.entry.name, model.pool_tokens);
}

void LoopCore::accept(Request& request) {
  if (request.accepted) return;
  request.accepted = true;
  const ModelState& model = models_[request.model];
  if (request.generation.job) request.generation.job->on_started();
  tell(request, Accepted{model.entry.name});
  metrics_.prompt_tokens.add(request.prompt_tokens);
  if (!request.generation.echo) return;
  for (std::uint32_t i = 0; i < request.choices.size(); ++i) {
    std::string text;
    for (const std::int32_t token :
         std::span(request.choices[i].tokens).first(request.prompt_tokens)) {
      text += model.pieces->piece(token);
    }
    tell(request, TextDelta{.choice = i, .text = utf8_sanitised(text)});
  }
}

void LoopCore::finish_choice(Request& request, std::uint32_t index, Finish finish,
                             sched::EndCause cause) {
  Choice& choice = request.choices[index];
  LARES_ASSERT(!choice.done, "choice {} ended twice", index);
  choice.done = true;
  choices_.erase(choice.sched);
  if (cause == sched::EndCause::Finished) done_choices_[choice.sched] = request.id;
  if (!request.embeds()) {
    sched::append_prefix_keys(prefix_scope(request), choice.tokens, choice.keys);
  }
  events_.emplace_back(sched::Ended{choice.sched, cause, event_keys_.emplace_back(choice.keys)});
  if (cause != sched::EndCause::Finished) return;
  TextDelta delta = choice.text.take();
  delta.finish = finish;
  tell_text(request, index, std::move(delta));
}

// The way of every generated text to its client: at once, or by way of the parser. May end the
// request.
void LoopCore::tell_text(Request& request, std::uint32_t index, TextDelta delta) {
  Choice& choice = request.choices[index];
  delta.choice = index;
  if (request.parser) {
    Parsing& parsing = choice.parsing;
    parsing.text += delta.text;
    std::ranges::move(delta.logprobs, std::back_inserter(parsing.logprobs));
    parsing.finish = delta.finish;
    return ask_parser(request, index);
  }
  choice.told = delta.finish != Finish::None;
  tell(request, std::move(delta));
  const bool all = std::ranges::all_of(request.choices, &Choice::told);
  if (all) end_request(request.id, store::Outcome::Done, std::nullopt, "");
}

// Whose choice the scheduler's job is or was; null once the request has ended.
Request* LoopCore::request_of(JobId job) {
  if (const auto choice = choices_.find(job); choice != choices_.end())
    return &requests_.at(choice->second.first);
  const auto done = done_choices_.find(job);
  return done == done_choices_.end() ? nullptr : &requests_.at(done->second);
}

// Device time, as the scheduler splits the answered steps over their items.
void LoopCore::charge(const sched::Decision& decision) {
  const auto note = [this](const sched::Charge& charge, std::string_view member,
                           std::string_view cls) {
    if (options_.timeline) options_.timeline->charged(charge.member, member, cls, charge.device);
  };
  for (const sched::Charge& charge : decision.charges) {
    if (Request* request = request_of(charge.job)) {
      request->device += charge.device;
      device_clock_.charged(charge.device);
      note(charge, request->generation.member.name, request->generation.cls);
      continue;
    }
    const auto ended = std::ranges::find_if(ended_rows_, [&](const EndedRow& e) {
      return std::ranges::find(e.jobs, charge.job) != e.jobs.end();
    });
    if (ended != ended_rows_.end()) {
      ended->row.device += charge.device;
      device_clock_.charged(charge.device);
      note(charge, ended->row.member, ended->row.cls);
    } else {
      device_clock_.unclaimed(charge.device);
      note(charge, "", "");
    }
  }
  if (options_.timeline) options_.timeline->settle();
}

void LoopCore::settle_rows() {
  std::erase_if(ended_rows_, [this](EndedRow& ended) {
    const bool computes = std::ranges::any_of(sent_runs_, [&](const SentRun& run) {
      return std::ranges::any_of(run.items, [&](const sched::StepItem& item) {
        return std::ranges::find(ended.jobs, item.job) != ended.jobs.end();
      });
    });
    if (!computes || stopping_) keep_row(std::move(ended.row));
    return !computes || stopping_;
  });
}

void LoopCore::keep_row(store::UsageRow row) {
  day_usage_.add(row.member_id, row.accepted_unix_ms, store::use_of(row));
  usage_(std::move(row));
}

void LoopCore::end_request(JobId id, store::Outcome outcome, std::optional<Error> error,
                           std::string code, Duration retry_after) {
  const auto it = requests_.find(id);
  LARES_ASSERT(it != requests_.end(), "request {} ended twice", id.value);
  Request& request = it->second;
  const auto cause =
      outcome == store::Outcome::Failed ? sched::EndCause::Failed : sched::EndCause::Cancelled;
  for (std::uint32_t i = 0; i < request.choices.size(); ++i) {
    Choice& choice = request.choices[i];
    if (choice.done) continue;
    // Not yet scheduled choices are unknown to the scheduler, which ignores their end.
    const auto& owners = models_[request.model].seq_owner;
    const bool open = choice.seq.value < owners.size() &&
                      owners[choice.seq.value] == choice.sched && choice.sched.value != 0;
    if (open) to_device(worker::Cancel{ModelId{request.model}, choice.seq});
    finish_choice(request, i, Finish::None, cause);
  }
  std::vector<JobId> jobs;
  if (request.sketch) {
    end_jobs(request);
    for (const JobId text : request.sketch->texts) cancel(text);
    request.sketch->run->end();
    std::erase_if(handle_owner_, [id](const auto& entry) { return entry.second == id; });
    jobs = std::move(request.sketch->all_jobs);
  }
  const Instant at = now();
  const std::string model =
      request.accepted ? models_[request.model].entry.name : request.generation.model;
  store::UsageRow row = request.usage_row(at, model);
  row.outcome = outcome;
  row.reason = code;
  metrics_.request_seconds.observe(in_seconds(row.clocks.total));
  if (row.clocks.first_token.count() >= 0)
    metrics_.first_token_seconds.observe(in_seconds(row.clocks.first_token));
  if (row.clocks.queue_wait.count() >= 0)
    metrics_.queue_seconds.observe(in_seconds(row.clocks.queue_wait));
  if (row.output_tokens > 1) {
    metrics_.token_seconds.observe(in_seconds(row.clocks.inference) / (row.output_tokens - 1));
  }
  metrics_.output_tokens.add(request.usage.output_tokens);
  metrics_.cached_tokens.add(request.usage.cached_tokens);
  request.usage.prompt_tokens = request.prompt_tokens;
  tell(request, Ended{request.usage, std::move(error), std::move(code), retry_after});
  {
    const std::lock_guard lock(snapshot_mutex_);
    known_.erase(id);
  }
  EndedRow& ended = ended_rows_.emplace_back();
  ended.row = std::move(row);
  for (const Choice& choice : request.choices) {
    if (choice.sched.value != 0) jobs.push_back(choice.sched);
  }
  for (const JobId job : jobs) done_choices_.erase(job);
  ended.jobs = std::move(jobs);
  waits_no_more(request);
  requests_.erase(it);
}

void LoopCore::fail_request(JobId id, Error error, std::string code, Duration retry_after) {
  const bool refused = !requests_.at(id).accepted && error.code != Code::Io;
  end_request(id, refused ? store::Outcome::Refused : store::Outcome::Failed, std::move(error),
              std::move(code), retry_after);
}

}  // namespace lares::server
