#include "engine/diffusion/picture_engine.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace lares::diffusion {
namespace {

// What is kept behind handles: in proportion to the model, for latents grow with what it makes.
constexpr std::int64_t kHeldLeast = std::int64_t{64} << 20U, kHeldMost = std::int64_t{1} << 30U;

engine::PictureSize given(Size size) {
  return {size.width, size.height};
}
Size taken(engine::PictureSize size) {
  return {size.width, size.height};
}

Result<std::optional<SamplerKind>> sampler_named(const std::string& name) {
  if (name.empty()) return std::optional<SamplerKind>();
  if (name == "ddim") return std::optional(SamplerKind::Ddim);
  if (name == "euler") return std::optional(SamplerKind::Euler);
  if (name == "euler_a") return std::optional(SamplerKind::EulerAncestral);
  if (name == "lcm") return std::optional(SamplerKind::Lcm);
  return fail(Code::Invalid, fmt::format("there is no sampler `{}`", name));
}

Error no_text() {
  return Error{Code::Unsupported, "an image model has no sequences"};
}

// Turns the server's work into the engine's and has it prepared.
class Preparer {
 public:
  Preparer(Engine& engine, const std::map<engine::Handle, Handle>& handles)
      : engine_(engine), handles_(handles) {}

  struct Made {
    Handle handle;
    std::uint32_t passes = 0;
    Bytes held{}, compute{};
  };

  Result<Made> operator()(const engine::EncodeText& work) { return passes(EncodeText{work.text}); }

  Result<Made> operator()(const engine::SampleLatent& work) {
    Sample sample{.words = TRY(known(work.words)),
                  .seed = work.seed,
                  .steps = work.steps,
                  .cfg = work.cfg,
                  .sampler = TRY(sampler_named(work.sampler)),
                  .size = taken(work.size),
                  .strength = work.strength};
    if (work.negative) sample.negative = TRY(known(*work.negative));
    if (work.from) sample.from = TRY(known(*work.from));
    if (work.go_on) {
      sample.resume = Resume{.step = work.go_on->step, .latent = work.go_on->copy};
      if (work.go_on->held) {
        LatentValues latent = TRY(engine_.deliver_latent(TRY(known(*work.go_on->held))));
        sample.resume->latent = std::move(latent.values);
      }
    }
    return passes(std::move(sample));
  }

  Result<Made> operator()(const engine::DecodeLatent& work) {
    return passes(DecodeLatent{TRY(known(work.latent))});
  }

  Result<Made> operator()(const engine::EncodePicture& work) {
    engine::Picture picture = work.picture;
    if (work.pixels) {
      Image image = TRY(engine_.deliver_image(TRY(known(*work.pixels))));
      picture = {.size = given(image.size), .rgb = std::move(image.rgb)};
    }
    const std::size_t bytes = std::size_t{3} * picture.size.width * picture.size.height;
    if (bytes == 0 || picture.rgb.size() != bytes || work.size.width == 0 ||
        work.size.height == 0 || std::max(work.size.width, work.size.height) > kPixelsMax) {
      return fail(Code::Invalid,
                  fmt::format("a picture of {}x{} to be made {}x{}", picture.size.width,
                              picture.size.height, work.size.width, work.size.height));
    }
    if (picture.size != work.size) picture = scaled(picture, work.size);
    return passes(EncodePixels{{.size = taken(picture.size), .rgb = std::move(picture.rgb)}});
  }

  Result<Made> operator()(const engine::AdoptLatent& work) {
    return at_once(engine_.adopt({taken(work.latent.size), work.latent.values}));
  }

  Result<Made> operator()(const engine::ResizeLatent& work) {
    return at_once(engine_.resize(TRY(known(work.latent)), taken(work.size)));
  }

  Result<Made> operator()(const engine::BlendLatents& work) {
    const Handle a = TRY(known(work.a)), b = TRY(known(work.b));
    return at_once(work.arc ? engine_.walk(a, b, work.share) : engine_.blend(a, b, work.share));
  }

 private:
  Result<Handle> known(engine::Handle handle) const {
    const auto found = handles_.find(handle);
    if (found != handles_.end()) return found->second;
    return fail(Code::NotFound, fmt::format("nothing is kept as {}", handle.value));
  }

  Result<Made> passes(const Work& work) {
    const Prepared prepared = TRY(engine_.prepare(work));
    return Made{prepared.handle, prepared.steps, prepared.held, prepared.compute};
  }

  static Result<Made> at_once(Result<Handle> handle) {
    if (!handle) return tl::unexpected(std::move(handle.error()));
    return Made{*handle};
  }

  Engine& engine_;
  const std::map<engine::Handle, Handle>& handles_;
};

}  // namespace

engine::Picture scaled(const engine::Picture& picture, engine::PictureSize size) {
  engine::Picture out{.size = size, .rgb = {}};
  out.rgb.resize(std::size_t{3} * size.width * size.height);
  const double step_x = static_cast<double>(picture.size.width) / size.width;
  const double step_y = static_cast<double>(picture.size.height) / size.height;
  // A tent as wide as an output pixel, but at least as an input pixel.
  const double reach_x = std::max(step_x, 1.0), reach_y = std::max(step_y, 1.0);
  const auto weights = [](double centre, double reach, std::uint32_t count) {
    std::vector<std::pair<std::uint32_t, double>> all;
    const auto first = static_cast<std::int64_t>(std::floor(centre - reach));
    for (std::int64_t i = first; static_cast<double>(i) <= centre + reach; ++i) {
      const double weight = 1 - std::abs(static_cast<double>(i) - centre) / reach;
      if (weight <= 0) continue;
      all.emplace_back(std::clamp<std::int64_t>(i, 0, count - 1), weight);
    }
    return all;
  };
  std::vector<std::vector<std::pair<std::uint32_t, double>>> columns;
  for (std::uint32_t x = 0; x < size.width; ++x)
    columns.push_back(weights((x + 0.5) * step_x - 0.5, reach_x, picture.size.width));
  for (std::uint32_t y = 0; y < size.height; ++y) {
    const auto rows = weights((y + 0.5) * step_y - 0.5, reach_y, picture.size.height);
    for (std::uint32_t x = 0; x < size.width; ++x) {
      double sum[3] = {0, 0, 0}, all = 0;
      for (const auto& [row, of_row] : rows) {
        for (const auto& [column, of_column] : columns[x]) {
          const double weight = of_row * of_column;
          const std::size_t at = 3 * (std::size_t{row} * picture.size.width + column);
          for (std::size_t c = 0; c < 3; ++c) sum[c] += weight * picture.rgb[at + c];
          all += weight;
        }
      }
      for (std::size_t c = 0; c < 3; ++c) {
        out.rgb[3 * (std::size_t{y} * size.width + x) + c] =
            static_cast<std::uint8_t>(std::lround(sum[c] / all));
      }
    }
  }
  return out;
}

Result<engine::Loaded> PictureEngine::load(const engine::LoadSpec& spec) {
  const auto begin = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    if (models_.contains(spec.model))
      return fail(Code::Conflict, fmt::format("model {} is loaded already", spec.model.value));
  }
  LoadSpec load{.folder = spec.path,
                .library_folder = options_.library_folder,
                .threads = options_.threads,
                .slice_max = options_.slice_max};
  auto made = TRY(diffusion::Engine::load(load));
  const ModelFacts facts = made->facts();
  const std::int64_t bytes = facts.weights.count;
  engine::Loaded loaded;
  loaded.model = spec.model;
  loaded.info.architecture = "diffusion";
  loaded.info.description = "diffusers folder";
  loaded.info.weights = facts.weights;
  loaded.info.can.generates = false;
  loaded.info.can.pictures = true;
  loaded.weights = facts.weights;
  loaded.kv = Bytes{std::clamp(bytes / 4, kHeldLeast, kHeldMost)};
  loaded.compute = Bytes{bytes};  // Until graphs are made: about as much again.
  loaded.took = std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - begin);
  const std::lock_guard lock(mutex_);
  models_[spec.model].networks = std::move(made);
  return loaded;
}

Result<PictureEngine::Resident*> PictureEngine::find(ModelId model) {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(model);
  if (found != models_.end()) return &found->second;
  return fail(Code::NotFound, fmt::format("model {} is not loaded", model.value));
}

Result<> PictureEngine::unload(ModelId model) {
  TRY(find(model));
  const std::lock_guard lock(mutex_);
  models_.erase(model);
  return {};
}

Result<> PictureEngine::open(const engine::Open& /*open*/) {
  return tl::unexpected(no_text());
}
Result<engine::Saved> PictureEngine::save(const engine::Save& /*save*/) {
  return tl::unexpected(no_text());
}
Result<> PictureEngine::restore(const engine::Restore& /*restore*/) {
  return tl::unexpected(no_text());
}
Result<> PictureEngine::lease(const engine::Lease& /*lease*/) {
  return tl::unexpected(no_text());
}
Result<> PictureEngine::release(std::uint64_t /*handle*/) {
  return tl::unexpected(no_text());
}

Result<engine::Prepared> PictureEngine::prepare(const engine::Prepare& prepare) {
  Resident* model = TRY(find(prepare.model));
  if (model->handles.contains(prepare.handle)) {
    return fail(Code::Conflict, fmt::format("{} is in use", prepare.handle.value));
  }
  const auto made = TRY(std::visit(Preparer(*model->networks, model->handles), prepare.work));
  model->handles.emplace(prepare.handle, made.handle);
  return engine::Prepared{prepare.model, prepare.handle, made.passes, made.held, made.compute};
}

Result<engine::Ran> PictureEngine::run(const engine::Run& run) {
  Resident* model = TRY(find(run.model));
  engine::Ran ran;
  ran.run = run.run;
  ran.model = run.model;
  ran.threads = options_.threads;
  if (options_.threads_now) {
    ran.threads = std::clamp(options_.threads_now(), 1U, options_.threads);
    TRY_VOID(model->networks->set_threads(ran.threads));
  }
  // What could not be prepared, or is not wanted any more, has no part in it.
  std::vector<engine::Handle> pass;
  std::vector<Handle> handles;
  for (const engine::Handle handle : run.pass) {
    const auto found = model->handles.find(handle);
    if (found == model->handles.end()) continue;
    pass.push_back(handle);
    handles.push_back(found->second);
  }
  ran.pass_done = true;
  if (pass.empty()) return ran;
  if (model->pass.empty()) {
    TRY_VOID(model->networks->step(handles));
    model->pass = pass;
  } else if (model->pass != pass) {
    return fail(Code::Conflict, "another pass is running");
  }
  const Sliced sliced = TRY(model->networks->slice(run.slice));
  ran.pass_done = sliced.done;
  ran.device = sliced.took;
  ran.longest = sliced.longest;
  if (!sliced.done) return ran;
  for (std::size_t i = 0; i < handles.size(); ++i) {
    const auto stepped = std::ranges::find(sliced.stepped, handles[i], &Stepped::handle);
    if (stepped == sliced.stepped.end()) continue;
    ran.stepped.push_back({pass[i], stepped->steps_done, stepped->finished});
  }
  model->pass.clear();
  return ran;
}

Result<engine::Delivered> PictureEngine::deliver(const engine::Deliver& deliver) {
  Resident* model = TRY(find(deliver.model));
  const auto found = model->handles.find(deliver.handle);
  if (found == model->handles.end())
    return fail(Code::NotFound, fmt::format("nothing is kept as {}", deliver.handle.value));
  engine::Delivered out{
      .model = deliver.model, .handle = deliver.handle, .what = deliver.what, .picture = {}};
  if (deliver.what == engine::Deliverable::Latent) {
    LatentValues latent = TRY(model->networks->deliver_latent(found->second));
    out.latent = {.size = given(latent.size), .values = std::move(latent.values)};
    return out;
  }
  Image image = deliver.what == engine::Deliverable::Pixels
                    ? TRY(model->networks->deliver_image(found->second))
                    : TRY(model->networks->preview(found->second));
  out.picture = {.size = given(image.size), .rgb = std::move(image.rgb)};
  return out;
}

void PictureEngine::discard(ModelId id, engine::Handle handle) {
  const auto model = find(id);
  if (!model) return;
  const auto found = (*model)->handles.find(handle);
  if (found == (*model)->handles.end()) return;
  (*model)->networks->release(found->second);
  (*model)->handles.erase(found);
  if (std::erase((*model)->pass, handle) == 0 || !(*model)->pass.empty()) return;
  // Nobody waits for the pass: its next slice ends it, and computes nothing.
  [[maybe_unused]] const auto ended = (*model)->networks->slice(Duration(1));
}

void PictureEngine::set_threads(std::uint32_t threads) {
  const std::lock_guard lock(mutex_);
  for (auto& [id, model] : models_) {
    [[maybe_unused]] const auto set = model.networks->set_threads(threads);
  }
}

engine::MemoryReport PictureEngine::memory() const {
  engine::MemoryReport report;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, model] : models_) {
    const MemoryHeld held = model.networks->memory();
    report.models.push_back(
        {.model = id, .weights = held.weights, .kv = held.held, .compute = held.compute});
  }
  return report;
}

}  // namespace lares::diffusion
