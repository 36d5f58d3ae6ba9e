#include "text/llama/llama_text.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <limits>
#include <mutex>

#include <chat.h>
#include <fmt/format.h>
#include <llama-cpp.h>
#include <log.h>

#include "text/llama/chat_json.h"
#include "text/llama/control_guard.h"

namespace lares::text {
namespace {

// A prompt is refused beyond this: four times what the largest context of any model could hold.
constexpr std::size_t kPromptBytesMax = 32U << 20U;

thread_local std::string last_error;

void keep_error(ggml_log_level level, const char* text, void* /*user_data*/) {
  if (level != GGML_LOG_LEVEL_ERROR || text == nullptr) return;
  std::string line(text);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  if (line.find("failed to load model") == std::string::npos) last_error = std::move(line);
}

void silence_libraries() {
  static std::once_flag once;
  std::call_once(once, [] {
    llama_log_set(keep_error, nullptr);
    common_log_set_verbosity_thold(-1);
    common_log_pause(common_log_main());
    setenv("GGML_NO_BACKTRACE", "1", 1);
    unsetenv("GGML_BACKEND_PATH");
    llama_backend_init();
  });
}

Result<> check_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return fail(errno == ENOENT ? Code::NotFound : Code::Io,
                fmt::format("{}: {}", path, std::strerror(errno)));
  }
  std::array<char, 4> magic{};
  file.read(magic.data(), magic.size());
  if (file.gcount() != 4 || std::memcmp(magic.data(), "GGUF", 4) != 0) {
    return fail(Code::Corrupt, path + " is not a GGUF file (it does not begin with GGUF)");
  }
  return {};
}

// What an exception of the template engine says, without the piece of template and the wrapping
// around it: "...\nError: Jinja Exception: roles must alternate" -> "roles must alternate".
std::string reason_of(const std::exception& error) {
  constexpr std::size_t kMost = 300;
  std::string_view text(error.what());
  for (const std::string_view mark : {"Jinja Exception: ", "Error: "}) {
    const std::size_t at = text.rfind(mark);
    if (at == std::string_view::npos) continue;
    text.remove_prefix(at + mark.size());
    break;
  }
  return std::string(text.substr(0, std::min(text.find('\n'), kMost)));
}

// The library prints grammars that it cannot read, which hold what people wrote, to stderr.
class QuietStderr {
 public:
  explicit QuietStderr(bool quiet) {
    if (!quiet) return;
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere < 0) return;
    kept_ = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    ::dup2(nowhere, STDERR_FILENO);
    ::close(nowhere);
  }
  ~QuietStderr() {
    if (kept_ < 0) return;
    ::dup2(kept_, STDERR_FILENO);
    ::close(kept_);
  }
  QuietStderr(const QuietStderr&) = delete;
  QuietStderr& operator=(const QuietStderr&) = delete;

 private:
  int kept_ = -1;
};

// Tokens whose text is recognised only where special tokens are parsed (llama-vocab.cpp,
// tokenizer_st_partition).
bool is_guarded(const llama_vocab* vocab, llama_token token) {
  const auto attributes = static_cast<unsigned>(llama_vocab_get_attr(vocab, token));
  return (attributes & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) != 0;
}

std::vector<std::string> control_texts(const llama_vocab* vocab) {
  std::vector<std::string> texts;
  for (llama_token token = 0; token < llama_vocab_n_tokens(vocab); ++token) {
    if (is_guarded(vocab, token)) texts.emplace_back(llama_vocab_get_text(vocab, token));
  }
  return texts;
}

void append_piece(const llama_vocab* vocab, llama_token token, std::string& out) {
  std::array<char, 256> buffer{};
  const std::int32_t size =
      llama_token_to_piece(vocab, token, buffer.data(), buffer.size(), 0, false);
  if (size >= 0) {
    out.append(buffer.data(), static_cast<std::size_t>(size));
    return;
  }
  std::string longer(static_cast<std::size_t>(-size), '\0');
  llama_token_to_piece(vocab, token, longer.data(), -size, 0, false);
  out.append(longer);
}

Vocabulary make_vocabulary(ModelId model, const llama_vocab* vocab) {
  Vocabulary table;
  table.model = model;
  const llama_token size = llama_vocab_n_tokens(vocab);
  table.offsets.reserve(static_cast<std::size_t>(size) + 1);
  table.flags.reserve(static_cast<std::size_t>(size));
  for (llama_token token = 0; token < size; ++token) {
    table.offsets.push_back(static_cast<std::uint32_t>(table.bytes.size()));
    const bool control = llama_vocab_is_control(vocab, token);
    const bool end = llama_vocab_is_eog(vocab, token);
    if (!control) append_piece(vocab, token, table.bytes);
    table.flags.push_back(static_cast<std::uint8_t>((control ? kTokenControl : 0U) |
                                                    (end ? kTokenEndOfGeneration : 0U)));
  }
  table.offsets.push_back(static_cast<std::uint32_t>(table.bytes.size()));
  return table;
}

Result<> append_tokens(const llama_vocab* vocab, const std::string& text, bool add_special,
                       bool parse_special, std::vector<std::int32_t>& out) {
  if (text.size() > kPromptBytesMax) {
    return fail(Code::TooLarge, fmt::format("the prompt has {} bytes; {} are possible", text.size(),
                                            kPromptBytesMax));
  }
  const auto length = static_cast<std::int32_t>(text.size());
  const std::size_t before = out.size();
  out.resize(before + text.size() + 4);
  const std::int32_t count =
      llama_tokenize(vocab, text.data(), length, out.data() + before,
                     static_cast<std::int32_t>(out.size() - before), add_special, parse_special);
  if (count >= 0) {
    out.resize(before + static_cast<std::size_t>(count));
    return {};
  }
  if (count == std::numeric_limits<std::int32_t>::min()) {
    return fail(Code::TooLarge, "the prompt has more tokens than can be counted");
  }
  out.resize(before +
             static_cast<std::size_t>(-count));  // More tokens than bytes: rare, but legal.
  llama_tokenize(vocab, text.data(), length, out.data() + before, -count, add_special,
                 parse_special);
  return {};
}

// A prompt in one piece is tokenised just as llama-server does it. In several, what belongs to the
// front and the end of the whole is added here.
Result<> append_pieces(const llama_vocab* vocab, const std::vector<ControlGuard::Piece>& pieces,
                       std::vector<std::int32_t>& out) {
  if (pieces.size() == 1 && !pieces.front().plain) {
    return append_tokens(vocab, pieces.front().text, true, true, out);
  }
  if (llama_vocab_get_add_bos(vocab)) out.push_back(llama_vocab_bos(vocab));
  for (const ControlGuard::Piece& piece : pieces) {
    TRY_VOID(append_tokens(vocab, piece.text, false, !piece.plain, out));
  }
  if (llama_vocab_get_add_eos(vocab)) out.push_back(llama_vocab_eos(vocab));
  return {};
}

}  // namespace

struct LlamaText::Model {
  llama_model_ptr model;
  common_chat_templates_ptr templates;
  std::string template_error;  // Why `templates` is missing.
  std::unique_ptr<ControlGuard> guard;

  [[nodiscard]] const llama_vocab* vocab() const { return llama_model_get_vocab(model.get()); }
};

LlamaText::LlamaText() {
  silence_libraries();
}
LlamaText::~LlamaText() = default;

Result<LlamaText::Model*> LlamaText::find(ModelId model) const {
  const auto found = models_.find(model);
  if (found == models_.end()) {
    return fail(Code::NotFound,
                fmt::format("the vocabulary of model {} is not loaded", model.value));
  }
  return found->second.get();
}

Result<Vocabulary> LlamaText::load(ModelId model, const std::string& path) {
  TRY_VOID(check_file(path));
  last_error.clear();
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  auto opened = std::make_unique<Model>();
  opened->model.reset(llama_model_load_from_file(path.c_str(), params));
  if (!opened->model) {
    const bool unknown = last_error.find("unknown") != std::string::npos;
    return fail(unknown ? Code::Unsupported : Code::Corrupt,
                fmt::format("the vocabulary of {} cannot be loaded: {}", path,
                            last_error.empty() ? "damaged or truncated" : last_error));
  }
  if (llama_vocab_type(opened->vocab()) == LLAMA_VOCAB_TYPE_NONE) {
    return fail(Code::Unsupported, path + " has no vocabulary");
  }
  opened->guard = std::make_unique<ControlGuard>(control_texts(opened->vocab()));
  try {
    opened->templates = common_chat_templates_init(opened->model.get(), "");
  } catch (const std::exception& error) {
    // A model whose template is broken can still complete plain text.
    opened->template_error = reason_of(error);
  }
  Vocabulary table = make_vocabulary(model, opened->vocab());
  table.has_chat_template = llama_model_chat_template(opened->model.get(), nullptr) != nullptr;
  models_[model] = std::move(opened);
  return table;
}

void LlamaText::unload(ModelId model) {
  models_.erase(model);
}

Result<Rendered> LlamaText::render(const RenderChat& chat) {
  const Model* model = TRY(find(chat.model));
  if (!model->templates) {
    return fail(Code::Invalid,
                fmt::format("the model's chat template is broken: {}", model->template_error));
  }
  const QuietStderr quiet(!chat.tools.empty() || !chat.schema.empty());
  try {
    common_chat_templates_inputs inputs =
        TRY(chat_inputs(chat, *model->guard, model->templates.get()));
    AnswerWish wish;
    wish.tools = !chat.tools.empty() && chat.tool_choice != ToolChoice::None;
    const bool must_call = wish.tools && chat.tool_choice == ToolChoice::Required;
    if (!must_call) wish.schema = inputs.json_schema;
    if (wish.tools) inputs.json_schema.clear();  // The template is told of the tools alone.
    common_chat_params params = common_chat_templates_apply(model->templates.get(), inputs);
    if (wish.tools && (must_call || !wish.schema.empty()) && !params.supports_thinking) {
      wish.call_first = call_grammar(model->templates.get(), std::move(inputs));
    }
    Rendered rendered;
    rendered.stops = std::move(params.additional_stops);
    TRY_VOID(append_pieces(model->vocab(), model->guard->split(params.prompt), rendered.tokens));
    TRY_VOID(describe_answer(model->vocab(), *model->guard, std::move(params), wish, rendered));
    return rendered;
  } catch (const std::exception& error) {
    return fail(Code::Invalid,
                fmt::format("the model's chat template refused: {}", reason_of(error)));
  }
}

Result<std::vector<std::int32_t>> LlamaText::tokenize(const Tokenize& request) {
  const Model* model = TRY(find(request.model));
  std::vector<std::int32_t> tokens;
  TRY_VOID(append_tokens(model->vocab(), request.text, request.add_special, request.parse_special,
                         tokens));
  return tokens;
}

Result<ParsedChat> LlamaText::parse(const ParseChat& chat) {
  try {
    return parsers_.parse(chat);
  } catch (const std::exception& error) {
    return fail(Code::Invalid,
                fmt::format("the answer has not the form it should: {}", reason_of(error)));
  }
}

}  // namespace lares::text
