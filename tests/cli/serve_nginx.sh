#!/usr/bin/env bash
# bn-serve through nginx with the configuration that docs/howto/serve.md shows, TLS included. BN_NGINX names another nginx.
# TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/serve/server.sh
. tests/serve/server.sh
nginx=${BN_NGINX:-$(PATH=$PATH:/usr/sbin command -v nginx)}
if [ -z "$nginx" ] || ! command -v openssl >/dev/null; then
    skip 'bn-serve through nginx' 'nginx or openssl is not installed (ci/install-packages.sh test)'
    exit
fi
proxy=''
finish() {
    [ -z "$proxy" ] || kill "$proxy" 2>/dev/null
    [ -z "$proxy" ] || wait "$proxy" 2>/dev/null
    stop_server
    tap_end
}
name=ai.example.com
key=0123456789abcdef-key
echo "$key" >"$tmp/keys"
start --allow-host "$name" --api-key-file "$tmp/keys"
direct=$url

# ---- the configuration of the page ----

sed -n '/^server {$/,/^}$/p' docs/howto/serve.md >"$tmp/page.conf"
check 'the page has a configuration' grep -q proxy_pass "$tmp/page.conf"
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$name" -addext "subjectAltName=DNS:$name" \
    -keyout "$tmp/tls.key" -out "$tmp/tls.pem" 2>/dev/null
tls_port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
sed -i -e "s,listen 443 ssl,listen 127.0.0.1:$tls_port ssl," -e "s,127.0.0.1:8080,127.0.0.1:$port," \
    -e "s,/etc/ssl/certs/$name.pem,$tmp/tls.pem," -e "s,/etc/ssl/private/$name.key,$tmp/tls.key," "$tmp/page.conf"
check 'which the test moves to its own port, server and certificate' equal \
    "$(grep -cE "listen 127.0.0.1:$tls_port ssl;|127.0.0.1:$port;|$tmp/tls" "$tmp/page.conf")" 4
{
    [ "$(id -u)" -ne 0 ] || echo 'user root;' # so that it may write to $tmp
    echo "pid $tmp/nginx.pid; error_log $tmp/nginx.log; daemon off; events {} http { access_log off;"
    for each in client_body proxy fastcgi uwsgi scgi; do echo "${each}_temp_path $tmp/$each;"; done
    cat "$tmp/page.conf"
    echo '}'
} >"$tmp/nginx.conf"
check 'nginx accepts it' "$nginx" -t -p "$tmp" -c "$tmp/nginx.conf"
"$nginx" -p "$tmp" -c "$tmp/nginx.conf" >/dev/null 2>&1 &
proxy=$!
url=https://$name:$tls_port
export CURL_CA_BUNDLE=$tmp/tls.pem
through=(--resolve "$name:$tls_port:127.0.0.1" -H "Authorization: Bearer $key")
is_up() { replies 200 '"status":"ok"' /health '' "${through[@]}"; }
check 'nginx answers by TLS' wait_for is_up

# ---- requests ----

request='{"prompt": "ROMEO:", "max_tokens": 24, "temperature": 0.8, "seed": 7}'
check 'an answer' replies 200 text_completion /v1/completions "$request" "${through[@]}"
cp "$tmp/reply" "$tmp/whole"
id=$(header X-BN-Receipt)
check 'with the name of its receipt' replies 200 predicateType "/v1/receipts/$id" '' "${through[@]}"
check 'the receipt replays' "$bin/bn-verify-receipt" "$tmp/reply" --model "$model" --replay
check 'a stream' replies 200 '^data: \[DONE\]' /v1/completions "${request%\}}, \"stream\": true}" "${through[@]}"
check 'with the same text' equal "$(sed -n 's/^data: {/{/p' "$tmp/reply" | python3 -c 'import json,sys
print("".join(c["text"] for e in sys.stdin for c in json.loads(e)["choices"]))')" "$(value 'd["choices"][0]["text"]' "$tmp/whole")"
check 'a page of the same site may ask' replies 200 text_completion /v1/completions "$request" "${through[@]}" -H "Origin: $url"
check 'one of another site may not' replies 403 origins /v1/completions "$request" "${through[@]}" -H 'Origin: https://evil.example'
check 'a wrong key is refused' replies 401 invalid_api_key /v1/models '' --resolve "$name:$tls_port:127.0.0.1" \
    -H 'Authorization: Bearer nothing'
check 'errors keep their headers' equal "$(header X-Should-Retry) $(header X-Request-Id | wc -c)" 'false 33'
url=https://$name:$tls_port
check 'another name is refused' replies 403 allow-host /health '' "${through[@]}" -H 'Host: evil.example'
printf '{"prompt": "%2000000s"}' x >"$tmp/large"
check 'a body that bn-serve refuses gets its error' replies 413 '1048576 bytes' /v1/completions "@$tmp/large" "${through[@]}"

# ---- streams arrive in pieces; a client that leaves ----

of_server() { curl -sS -m 60 -H "X-Api-Key: $key" "$direct/metrics" | sed -n "s/^$1 //p"; }
curl -sSN -m 300 "${through[@]}" -o "$tmp/pieces" -H 'Content-Type: application/json' "$url/v1/completions" \
    -d '{"prompt": ["a", "b", "c", "d", "e", "f", "g", "h"], "max_tokens": 1000, "stream": true}' &
client=$!
has_piece() { grep -q '"text"' "$tmp/pieces"; }
check 'a piece of a stream arrives' wait_for has_piece
check 'while the answer is still being generated' equal "$(($(of_server bn_jobs_total) - $(of_server bn_jobs_ended_total)))" 1
kill "$client"
wait "$client" 2>/dev/null
ended() { [ "$(of_server bn_jobs_total)" = "$(of_server bn_jobs_ended_total)" ]; }
check 'when the client leaves, the work ends' wait_for ended
check 'as cancelled' equal "$(of_server bn_jobs_cancelled_total)" 1
check 'the next answer is as before' replies 200 "$(value 'd["choices"][0]["bn"]["chain"]' "$tmp/whole")" /v1/completions \
    "$request" "${through[@]}"
