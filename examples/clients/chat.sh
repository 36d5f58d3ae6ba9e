#!/bin/sh
# One question with curl: chat.sh [QUESTION]. LARES_URL and LARES_KEY say where and who.
url=${LARES_URL:-http://127.0.0.1:8080}
question=${1:-How many grams are in 3 kilograms?}
printf '{"messages": [{"role": "user", "content": "%s"}], "max_tokens": 100}' "$question" |
  curl --silent --show-error --fail-with-body "$url/v1/chat/completions" \
    --header 'Content-Type: application/json' ${LARES_KEY:+--header "Authorization: Bearer $LARES_KEY"} --data @-
echo
