// What the routes of the journal answer with, and how they find a caller's job.
//
// Any thread; find_own() on the journal's.
#pragma once

#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "server/answer.h"
#include "store/journal.h"

namespace lares::server {

ApiError job_error(Code code, std::string error_code, std::string message, int status = 0);
// What the journal could not do. A full or read-only disk is 507: the request is all right.
ApiError storage_error(const Error& error);
ApiError result_gone();

void respond_json(Answer& answer, int status, std::string body, Headers headers = {});
// Of a stream of events, those behind the one with the id `after`.
void respond_result(Answer& answer, const store::Artefact& result, std::string_view after = "");

using OwnJob = tl::expected<store::JobRecord, ApiError>;
// The caller's job of that id; or 404, also for another's, or 410 for one that was theirs.
Result<OwnJob> find_own(store::Journal& journal, const Answer& answer, const std::string& id);

}  // namespace lares::server
