// The JSON that the dashboard reads, beside that of other routes.
//
// Pure; any thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/web_routes.h"
#include "store/members.h"
#include "store/usage_view.h"

namespace lares::server {

// {"object":"member","name":"ana","admin":false,"classes":["chat"],...}
std::string me_json(const store::Member& member, const std::string& version);

// {"object":"settings","data":[{"key":...,"value":...,"default":...,"meaning":...},...]}
std::string settings_json(const std::vector<SettingText>& settings);

// {"object":"hours","since":...,"jain":0.98,"data":[...],"others":[...]}
// A member sees their own uses, and of the others how much device time they took in each hour.
std::string hours_json(const std::vector<store::HourUse>& uses, std::int64_t since_unix_s,
                       const store::Member& reader,
                       const std::function<std::uint32_t(MemberId)>& weight_permille);

// Jain's index of device time over weights, of those who used any: 1 is equal, 1/n is one alone.
// 1 for nobody.
double jain_index(const std::vector<double>& uses);

// {"object":"list","data":[...],"has_more":true,"next":17}
std::string requests_json(const std::vector<store::PastRequest>& found, std::uint32_t limit);

}  // namespace lares::server
