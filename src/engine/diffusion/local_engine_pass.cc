// The part of LocalEngine that runs passes: step, slice, and what goes in and comes out.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/assert.h"
#include "engine/diffusion/local_engine.h"
#include "engine/diffusion/noise.h"

namespace lares::diffusion {
namespace {

void set_tensor(ggml_tensor* tensor, std::span<const float> values) {
  LARES_ASSERT(ggml_nbytes(tensor) == values.size_bytes(), "{} bytes into {}", values.size_bytes(),
               ggml_nbytes(tensor));
  ggml_backend_tensor_set(tensor, values.data(), 0, values.size_bytes());
}

void append(std::vector<float>& out, std::span<const float> values) {
  out.insert(out.end(), values.begin(), values.end());
}

}  // namespace

Result<> LocalEngine::step(std::span<const Handle> handles) {
  if (pass_) return fail(Code::Conflict, "a pass is running");
  if (handles.empty() || handles.size() > kBatchMax) {
    return fail(
        handles.empty() ? Code::Invalid : Code::TooLarge,
        fmt::format("{} pieces of work in a pass; from 1 to {}", handles.size(), kBatchMax));
  }
  std::vector<Object*> objects;
  for (const Handle handle : handles) {
    Object* object = TRY(find(handle));
    if (object->finished()) {
      return fail(Code::Invalid, fmt::format("{} is finished already", handle.value));
    }
    if (!objects.empty() && objects[0]->key != object->key) {
      return fail(Code::Conflict,
                  fmt::format("{} cannot share a pass with {}", object->key, objects[0]->key));
    }
    objects.push_back(object);
  }
  if (std::set<Handle>(handles.begin(), handles.end()).size() != handles.size()) {
    return fail(Code::Invalid, "the same work twice in a pass");
  }
  const bool alone = std::holds_alternative<DecodeObject>(objects[0]->is) ||
                     std::holds_alternative<EncodeObject>(objects[0]->is);
  if (alone && objects.size() > 1) {
    return fail(Code::Conflict, "pictures pass through the autoencoder one by one");
  }
  NetworkGraph* graph = TRY(graph_for(objects));
  set_inputs(*graph, objects);
  graph->graph->start();
  graph->running = true;
  pass_ = Pass{.graph = graph, .handles = {handles.begin(), handles.end()}};
  return {};
}

Result<NetworkGraph*> LocalEngine::graph_for(const std::vector<Object*>& objects) {
  const auto count = static_cast<std::uint32_t>(objects.size());
  const Object& first = *objects[0];
  if (std::holds_alternative<WordsObject>(first.is)) return networks_.text(count);
  if (const auto* sample = std::get_if<SampleObject>(&first.is)) {
    return networks_.unet(latent_size(sample->size), sample->guided() ? 2 * count : count);
  }
  if (const auto* decode = std::get_if<DecodeObject>(&first.is)) {
    return networks_.decoder(latent_size(decode->size));
  }
  return networks_.encoder(latent_size(std::get<EncodeObject>(first.is).size));
}

void LocalEngine::set_inputs(NetworkGraph& graph, const std::vector<Object*>& objects) const {
  const Object& first = *objects[0];
  if (std::holds_alternative<WordsObject>(first.is)) {
    std::vector<std::int32_t> ids;
    for (const Object* object : objects) {
      const auto& own = std::get<WordsObject>(object->is).ids;
      ids.insert(ids.end(), own.begin(), own.end());
    }
    ggml_backend_tensor_set(graph.text.ids, ids.data(), 0, ids.size() * sizeof(std::int32_t));
    TextEncoder::set_constants(graph.text);
  } else if (std::holds_alternative<SampleObject>(first.is)) {
    set_sample_inputs(graph.unet, objects);
  } else if (const auto* decode = std::get_if<DecodeObject>(&first.is)) {
    std::vector<float> latent = decode->latent;
    for (float& value : latent) value /= config_.vae.scaling_factor;
    set_tensor(graph.map, latent);
  } else {
    set_tensor(graph.map, std::get<EncodeObject>(first.is).pixels);
  }
}

// With guidance a sample has two rows that differ in their words: the negative's, then its own.
void LocalEngine::set_sample_inputs(const Unet::Inputs& inputs,
                                    const std::vector<Object*>& objects) const {
  std::vector<float> latents, times, words;
  for (const Object* object : objects) {
    const auto& sample = std::get<SampleObject>(object->is);
    const TrajectoryStep& step = sample.trajectory.steps[sample.done];
    std::vector<float> scaled(sample.x.size());
    scale_input(step, sample.x, scaled);
    const std::vector<float> time = networks_.unet().time_embedding(step.timestep);
    const auto row = [&](const SharedValues& of) {
      append(latents, scaled);
      append(times, time);
      append(words, *of);
    };
    if (sample.guided()) row(sample.negative);
    row(sample.words);
  }
  set_tensor(inputs.latent, latents);
  set_tensor(inputs.time, times);
  set_tensor(inputs.words, words);
}

bool LocalEngine::abandoned() const {
  return std::ranges::none_of(pass_->handles,
                              [](const auto& handle) { return handle.has_value(); });
}

Result<Sliced> LocalEngine::slice(Duration most) {
  if (!pass_) return fail(Code::Conflict, "no pass is running");
  Sliced out;
  if (abandoned()) {
    out.done = true;
  } else {
    const auto ran = pass_->graph->graph->run(networks_.device(), most);
    if (!ran) {
      pass_->graph->running = false;
      pass_.reset();
      return tl::unexpected(ran.error());
    }
    out.done = ran->done;
    out.took = ran->took;
    out.longest = ran->longest;
    if (out.done) out.stepped = finish_pass();
  }
  if (out.done) {
    pass_->graph->running = false;
    pass_.reset();
  }
  return out;
}

std::vector<Stepped> LocalEngine::finish_pass() {
  const ggml_tensor* tensor = pass_->graph->graph->output();
  std::vector<float> output(ggml_nbytes(tensor) / sizeof(float));
  ggml_backend_tensor_get(tensor, output.data(), 0, output.size() * sizeof(float));
  std::vector<Stepped> stepped;
  for (std::size_t i = 0; i < pass_->handles.size(); ++i) {
    if (!pass_->handles[i]) continue;
    const Handle handle = *pass_->handles[i];
    Object& object = objects_.at(handle);
    take_output(object, i, pass_->handles.size(), output);
    stepped.push_back({handle, object.steps_done(), object.finished()});
  }
  return stepped;
}

void LocalEngine::take_output(Object& object, std::size_t index, std::size_t count,
                              const std::vector<float>& output) const {
  const std::size_t part = output.size() / count;
  const std::span<const float> own(output.data() + index * part, part);
  if (auto* words = std::get_if<WordsObject>(&object.is)) {
    words->values = std::make_shared<const std::vector<float>>(own.begin(), own.end());
  } else if (auto* sample = std::get_if<SampleObject>(&object.is)) {
    advance_sample(*sample, own);
  } else if (auto* decode = std::get_if<DecodeObject>(&object.is)) {
    decode->pixels.assign(own.begin(), own.end());
  } else {
    // The posterior's mean, not a draw from it: the same picture is the same latent.
    auto& encode = std::get<EncodeObject>(object.is);
    encode.latent.assign(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(own.size() / 2));
    for (float& value : encode.latent) value *= config_.vae.scaling_factor;
  }
}

void LocalEngine::advance_sample(SampleObject& sample, std::span<const float> rows) const {
  std::vector<float> out(rows.end() - static_cast<std::ptrdiff_t>(sample.x.size()), rows.end());
  if (sample.guided()) {  // Ho and Salimans 2022.
    const auto cfg = static_cast<float>(sample.spec.cfg);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = rows[i] + cfg * (out[i] - rows[i]);
  }
  const TrajectoryStep& step = sample.trajectory.steps[sample.done];
  sample.clean.resize(sample.x.size());
  predict_clean(step, sample.x, out, sample.clean);
  std::vector<float> noise;
  if (step.next_noise != 0) {
    noise.resize(sample.x.size());
    fill_noise(sample.spec.seed, step_draw(sample.trajectory.skipped + sample.done), noise);
  }
  advance(step, out, noise, sample.x);
  ++sample.done;
}

}  // namespace lares::diffusion
