// What clients see when something goes wrong: the one table from Code to HTTP status and OpenAI
// error type, and the body that carries them.
//
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "core/result.h"
#include "server/http.h"

namespace lares::server {

struct Ended;

// An error as an API client gets it.
struct ApiError {
  Code code = Code::Invalid;
  std::string message;     // A sentence: what is wrong and what to do about it.
  std::string param;       // Path of the field at fault: "messages[2].content"; "" if none.
  std::string error_code;  // Stable, for programs: "model_not_found"; "" takes the table's.
  int status = 0;          // What HTTP itself dictates (405, 413, 415...); 0 takes the table's.
  int retry_after = 0;     // Seconds; 0 takes the table's.
};

// Why a request ended that has an error.
ApiError api_error(const Ended& ended);

// HTTP status, OpenAI `type` and stable code of a failure that names none itself.
struct ErrorRow {
  int status;
  std::string_view type;
  std::string_view error_code;
  int retry_after;  // Seconds; 0 when waiting does not help.
};
const ErrorRow& error_row(Code code);

// {"error":{"message":...,"type":...,"param":...,"code":...}}
std::string error_body(const ApiError& error);

// The status an error is answered with.
int error_status(const ApiError& error);

// Status, body, and Retry-After where waiting helps.
HttpResponse error_response(const ApiError& error);

// The same in Ollama's form: {"error":"...","code":"..."}; its clients show the string.
HttpResponse ollama_error_response(const ApiError& error);

}  // namespace lares::server
