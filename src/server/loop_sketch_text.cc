// What sketches ask and embed: requests of their member like any other, with a row of their own in
// the ledger. What comes of them goes back into the sketch by way of the inbox, for their events
// arrive while others are being handed out.
#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "server/job_link.h"
#include "server/loop_core.h"

namespace lares::server {

namespace {

// Collects one request's answer.
class TextSink final : public GenerationSink {
 public:
  TextSink(std::vector<std::uint32_t> units, std::function<void(SketchTexts)> done)
      : done_(std::move(done)) {
    got_.units = std::move(units);
    got_.vectors.resize(got_.units.size());
  }
  void set_request(JobId request) { got_.request = request; }

  void on_event(GenerationEvent event) override {
    if (auto* delta = std::get_if<TextDelta>(&event)) {
      got_.text += delta->text;
    } else if (auto* embedding = std::get_if<Embedding>(&event)) {
      if (embedding->index < got_.vectors.size())
        got_.vectors[embedding->index] = std::move(embedding->values);
    } else if (auto* ended = std::get_if<Ended>(&event)) {
      if (ended->error) got_.failed = std::move(*ended);
      done_(std::move(got_));
    }
  }

 private:
  const std::function<void(SketchTexts)> done_;
  SketchTexts got_;
};

}  // namespace

void LoopCore::submit_for(Request& sketch, Generation generation,
                          std::vector<std::uint32_t> units) {
  generation.member = sketch.generation.member;
  generation.cls = sketch.generation.cls;
  generation.task = sketch.generation.task;
  const auto sink = std::make_shared<TextSink>(std::move(units), [this, id = sketch.id](auto got) {
    post(SketchTextCommand{id, std::move(got)});
  });
  const JobId id = submit(std::move(generation), sink);
  sink->set_request(id);
  sketch.sketch->texts.push_back(id);
}

void LoopCore::on(SketchTextCommand command) {
  const auto found = requests_.find(command.sketch);
  if (found == requests_.end() || !found->second.sketch) return;  // It has ended meanwhile.
  Request& request = found->second;
  SketchTexts& got = command.got;
  std::erase(request.sketch->texts, got.request);
  if (got.failed) {
    return fail_request(request.id, std::move(*got.failed->error),
                        std::move(got.failed->error_code), got.failed->retry_after);
  }
  SketchRun& run = *request.sketch->run;
  for (std::size_t i = 0; i < got.units.size(); ++i) {
    const bool vector = run.node_of(got.units[i]).op == "embed";
    vector ? run.on_vector(got.units[i], std::move(got.vectors[i]))
           : run.on_text(got.units[i], got.text);
  }
  if (request.generation.job)
    request.generation.job->on_progress({.device = request.device, .advanced = true});
  sketches_done_.push_back(request.id);
}

// Models that write and that make vectors, as the planner wants to know them.
void LoopCore::publish_text_models() {
  sketch::Catalogue& catalogue = catalogue_snapshot_.catalogue;
  for (const ModelState& model : models_) {
    if (model.embeds || model.gone || model.at == ModelState::At::Probing ||
        model.at == ModelState::At::Failed || model.info.can.pictures) {
      continue;
    }
    sketch::Model known;
    known.name = model.entry.name;
    known.kind = model.info.can.generates ? sketch::ModelKind::Chat : sketch::ModelKind::Embed;
    known.embeds = model.info.can.embeds;
    known.digest = fmt::format("{}@{}", model.entry.name, model.entry.stamp);
    known.warm = model.at == ModelState::At::Ready;
    known.weights = model.info.weights;
    known.dtypes = {"f16"};
    known.embedding_width = model.info.embedding;
    catalogue.models.push_back(std::move(known));
  }
  // What embeddings are asked from where there is no model of that name.
  const bool there = catalogue.find(kEmbeddingAlias) != nullptr;
  const auto stands = there ? std::nullopt : find_embedding_model(std::string(kEmbeddingAlias));
  if (!stands || models_[*stands].at == ModelState::At::Probing) return;
  sketch::Model alias;
  alias.name = kEmbeddingAlias;
  alias.kind = sketch::ModelKind::Embed;
  alias.digest = fmt::format("{}@{}", models_[*stands].entry.name, models_[*stands].entry.stamp);
  alias.dtypes = {"f16"};
  alias.embedding_width = models_[*stands].info.embedding;
  catalogue.models.push_back(std::move(alias));
}

}  // namespace lares::server
