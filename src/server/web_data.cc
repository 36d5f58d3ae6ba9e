#include "server/web_data.h"

#include <array>
#include <iterator>
#include <map>

#include <fmt/format.h>

#include "core/text.h"

namespace lares::server {
namespace {

std::string seconds_or_null(Duration clock) {
  return clock < Duration{0} ? "null" : fmt::format("{:.6f}", in_seconds(clock));
}

std::string clocks_json(const store::Clocks& clocks) {
  const std::array<std::pair<std::string_view, Duration>, 8> all{
      {{"queue_wait_s", clocks.queue_wait},
       {"model_load_s", clocks.model_load},
       {"text_work_s", clocks.text_work},
       {"prefill_s", clocks.prefill},
       {"inference_s", clocks.inference},
       {"deliver_s", clocks.deliver},
       {"first_token_s", clocks.first_token},
       {"total_s", clocks.total}}};
  std::string out;
  for (const auto& [name, clock] : all)
    out += fmt::format("{}\"{}\":{}", out.empty() ? "" : ",", name, seconds_or_null(clock));
  return "{" + out + "}";
}

std::string request_json(const store::PastRequest& past) {
  const store::UsageRow& row = past.row;
  return fmt::format(
      R"({{"n":{},"request":"{}","job":{},"member":{},"class":{},"model":{},"accepted":{:.3f},)"
      R"("outcome":"{}","reason":{},"prompt_tokens":{},"cached_tokens":{},"output_tokens":{},)"
      R"("device_s":{:.6f},"clocks":{}}})",
      past.number, row.job, row.job_id.empty() ? "null" : json_quoted(row.job_id),
      json_quoted(row.member), json_quoted(row.cls), json_quoted(row.model),
      static_cast<double>(row.accepted_unix_ms) / 1000, store::outcome_name(row.outcome),
      json_quoted(row.reason), row.prompt_tokens, row.cached_tokens, row.output_tokens,
      in_seconds(row.device), clocks_json(row.clocks));
}

}  // namespace

std::string me_json(const store::Member& member, const std::string& version) {
  std::string classes;
  for (const std::string& cls : member.classes)
    classes += (classes.empty() ? "" : ",") + json_quoted(cls);
  const MemberLimits& limits = member.share.limits;
  return fmt::format(
      R"({{"object":"member","name":{},"admin":{},"key":{},"classes":[{}],"default_class":{},)"
      R"("weight":{:.3f},"limits":{{"in_flight":{},"queued":{},"tokens_a_day":{},)"
      R"("device_seconds_a_day":{}}},"version":{}}})",
      json_quoted(member.share.name), member.admin, !member.key_hash.empty(), classes,
      json_quoted(member.default_class), member.share.weight_permille / 1000.0, limits.in_flight,
      limits.queued, limits.tokens_a_day, limits.device_seconds_a_day, json_quoted(version));
}

std::string settings_json(const std::vector<SettingText>& settings) {
  std::string data;
  for (const SettingText& s : settings) {
    data += fmt::format(
        R"({}{{"key":{},"flag":{},"value":{},"default":{},"range":{},"meaning":{},"reason":{}}})",
        data.empty() ? "" : ",", json_quoted(s.key), json_quoted(s.flag), json_quoted(s.value),
        json_quoted(s.fallback), json_quoted(s.range), json_quoted(s.meaning),
        json_quoted(s.reason));
  }
  return fmt::format(R"({{"object":"settings","data":[{}]}})", data);
}

double jain_index(const std::vector<double>& uses) {
  double sum = 0, squares = 0;
  for (const double use : uses) {
    sum += use;
    squares += use * use;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(uses.size()) * squares) : 1;
}

std::string hours_json(const std::vector<store::HourUse>& uses, std::int64_t since_unix_s,
                       const store::Member& reader,
                       const std::function<std::uint32_t(MemberId)>& weight_permille) {
  std::string data, others;
  std::map<MemberId, double> by_member;
  std::map<std::int64_t, Duration> by_others;
  for (const store::HourUse& use : uses) {
    if (use.device > Duration{0})
      by_member[use.member_id] += in_seconds(use.device) / weight_permille(use.member_id);
    if (!reader.admin && use.member_id != reader.share.id) {
      by_others[use.unix_s] += use.device;
      continue;
    }
    data += fmt::format(
        R"({}{{"hour":{},"member":{},"class":{},"requests":{},"prompt_tokens":{},)"
        R"("output_tokens":{},"device_s":{:.6f},"wait_mean_s":{:.6f},"wait_max_s":{:.6f},)"
        R"("first_token_mean_s":{:.6f}}})",
        data.empty() ? "" : ",", use.unix_s, json_quoted(use.member), json_quoted(use.cls),
        use.requests, use.prompt_tokens, use.output_tokens, in_seconds(use.device),
        in_seconds(use.wait_mean), in_seconds(use.wait_max), in_seconds(use.first_token_mean));
  }
  for (const auto& [hour, device] : by_others) {
    others += fmt::format(R"({}{{"hour":{},"device_s":{:.6f}}})", others.empty() ? "" : ",", hour,
                          in_seconds(device));
  }
  std::vector<double> shares;
  for (const auto& [member, use] : by_member) shares.push_back(use);
  return fmt::format(
      R"({{"object":"hours","since":{},"jain":{:.4f},"members":{},"data":[{}],"others":[{}]}})",
      since_unix_s, jain_index(shares), shares.size(), data, others);
}

std::string requests_json(const std::vector<store::PastRequest>& found, std::uint32_t limit) {
  std::string data;
  std::int64_t last = 0;
  for (const store::PastRequest& past : found) {
    if (limit == 0) break;
    --limit;
    data += (data.empty() ? "" : ",") + request_json(past);
    last = past.number;
  }
  const bool more = !found.empty() && found.back().number != last;
  return fmt::format(R"({{"object":"list","data":[{}],"has_more":{},"next":{}}})", data, more,
                     more ? fmt::format("{}", last) : "null");
}

}  // namespace lares::server
