#!/usr/bin/env bash
# Starts the built relay and the signaling server of examples/signaling with its page. PORT, RELAY_PORT and MEDIA_PORT
# choose the ports; LAN=1 serves the page over HTTPS on all addresses, with a certificate made here, for a second
# machine or a phone.
set -euo pipefail
cd "$(dirname "$0")/.."

relay=.build/release/media-relay
[ -x "$relay" ] || { echo "run.sh: $relay is missing; 'make run' builds it" >&2; exit 1; }
port=${PORT:-8080}
relay_port=${RELAY_PORT:-$((port + 1))}
media_port=${MEDIA_PORT:-40000}
state=${XDG_STATE_HOME:-$HOME/.local/state}/media-relay/demo
mkdir -p "$state"
chmod 700 "$state"

# One key for all starts, so that a token outlives a restart; readable by this user only.
key=$state/key
if [ ! -s "$key" ]; then
  (umask 077 && head -c 32 /dev/urandom | od -An -v -tx1 | tr -d " \n" >"$key")
fi
media=(--media "0.0.0.0:$media_port" --media "[::]:$media_port")
page=(--listen "127.0.0.1:$port")
address=127.0.0.1
scheme=http

if [ "${LAN:-0}" = 1 ]; then
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
  media=(--media "0.0.0.0:$media_port" --announce "$address" --announce 127.0.0.1)
  page=(--listen "0.0.0.0:$port" --tls-cert "$certificate" --tls-key "$private_key")
  scheme=https
fi

# Both end together: by Ctrl-C, by a signal, or when one of them ends.
processes=()
end() {
  trap - EXIT INT TERM
  kill "${processes[@]}" 2>/dev/null || true
  wait
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The relay's API stays on loopback: clients reach it through the signaling server, by one address.
"$relay" serve --http "127.0.0.1:$relay_port" "${media[@]}" --demo --data "$state/data" --key "demo:@$key" --admin off "$@" &
processes+=($!)
python3 examples/signaling/server.py --relay "http://127.0.0.1:$relay_port" --key "demo:@$key" "${page[@]}" &
processes+=($!)

# The page answers when the relay is ready.
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
  kill -0 "${processes[@]}" 2>/dev/null || exit 1
  sleep 0.1
done
echo "MediaRelay: open $scheme://$address:$port/ in two tabs and call. Ctrl-C ends it."
if [ "$scheme" = https ]; then
  echo "On other machines, too: accept the certificate, which was made just for this. UDP port $media_port must be open."
  echo "Anybody on the network can call while this runs."
else
  echo "For a second machine or a phone: make run LAN=1. Preparing and joining by hand: http://127.0.0.1:$relay_port/"
fi
wait -n
