#!/usr/bin/env bash
# Starts the built relay with its demo page. PORT and MEDIA_PORT choose the ports; LAN=1 serves HTTPS on all addresses, with a
# certificate made here, for a second machine or a phone.
set -euo pipefail
cd "$(dirname "$0")/.."

relay=.build/release/media-relay
[ -x "$relay" ] || { echo "run.sh: $relay is missing; 'make run' builds it" >&2; exit 1; }
port=${PORT:-8080}
media_port=${MEDIA_PORT:-40000}
state=${XDG_STATE_HOME:-$HOME/.local/state}/media-relay/demo
mkdir -p "$state"
chmod 700 "$state"

# One key for all starts, so that a token outlives a restart; readable by this user only.
key=$state/key
if [ ! -s "$key" ]; then
  (umask 077 && head -c 32 /dev/urandom | od -An -v -tx1 | tr -d " \n" >"$key")
fi
common=(--demo --data "$state/data" --key "demo:@$key" --admin off)

if [ "${LAN:-0}" != 1 ]; then
  echo "MediaRelay: open http://127.0.0.1:$port/ in two tabs. Ctrl-C ends it. (LAN=1: for a second machine.)"
  exec "$relay" serve --http "127.0.0.1:$port" --media "0.0.0.0:$media_port" --media "[::]:$media_port" "${common[@]}" "$@"
fi

scripts/install-packages.sh lan
# The address that this machine has towards the network.
address=${ADDRESS:-$(ip -4 route get 192.0.2.1 2>/dev/null | sed -n 's/.* src \([0-9.]*\).*/\1/p')}
[ -n "$address" ] || { echo "run.sh: no network address found; give one: make run LAN=1 ADDRESS=192.168.1.5" >&2; exit 1; }
certificate=$state/lan-$address.crt
private_key=$state/lan-$address.key
if ! openssl x509 -checkend 86400 -noout -in "$certificate" >/dev/null 2>&1; then
  (umask 077 && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 90 \
    -subj "/CN=MediaRelay demo" -addext "subjectAltName=IP:$address,IP:127.0.0.1,DNS:localhost" \
    -keyout "$private_key" -out "$certificate" 2>/dev/null)
fi
echo "MediaRelay: open https://$address:$port/ on both machines and accept the certificate, which was made just for this."
echo "UDP port $media_port must be open. Anybody on the network can call while this runs. Ctrl-C ends it."
exec "$relay" serve --http "0.0.0.0:$port" --tls-cert "$certificate" --tls-key "$private_key" \
  --media "0.0.0.0:$media_port" --announce "$address" --announce 127.0.0.1 "${common[@]}" "$@"
