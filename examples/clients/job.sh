#!/bin/sh
# Work that outlives this program: job.sh [QUESTION]. The job goes on if the server is restarted.
url=${LARES_URL:-http://127.0.0.1:8080}
question=${1:-Tell the kids a story about a brave rabbit}
ask() { curl --silent --show-error --fail-with-body ${LARES_KEY:+--header "Authorization: Bearer $LARES_KEY"} "$@"; }

id=$(printf '{"request": {"path": "/v1/chat/completions", "body": {"messages": [{"role": "user", "content": "%s"}]}}}' \
      "$question" | ask "$url/v1/jobs" --header 'Content-Type: application/json' --data @- |
    sed 's/.*"id":"\([^"]*\)".*/\1/')
echo "$id"
# Events come until it is over.
ask --no-buffer "$url/v1/jobs/$id/events" | grep '^event:'
ask "$url/v1/jobs/$id/result"
echo
