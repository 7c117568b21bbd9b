// One Chromium client of the lab, in a tab (chromium.py evaluates this there): the same as LabPeer in peer.py, with the
// browser's fake camera and microphone, which play scene.py's picture and sound.

globalThis.lab = (() => {
  const mostBitRate = 2_000_000;
  const fields = {
    "inbound-rtp video": {
      frames: "framesDecoded", keyFrames: "keyFramesDecoded", freezes: "freezeCount", freezeSeconds: "totalFreezesDuration",
      videoBytes: "bytesReceived", repeatedBytes: "retransmittedBytesReceived", videoFecBytes: "fecBytesReceived",
      videoLost: "packetsLost", nacks: "nackCount", plis: "pliCount", height: "frameHeight",
    },
    "inbound-rtp audio": {
      audioBytes: "bytesReceived", audioPackets: "packetsReceived", audioLost: "packetsLost", concealed: "concealedSamples",
      silentConcealed: "silentConcealedSamples", samples: "totalSamplesReceived", fecPackets: "fecPacketsReceived",
    },
    "outbound-rtp video": {
      sentVideoBytes: "bytesSent", sentVideoHeaders: "headerBytesSent", sentVideoPackets: "packetsSent", sentFrames: "framesSent",
      targetRate: "targetBitrate",
    },
    "outbound-rtp audio": { sentAudioBytes: "bytesSent", sentAudioHeaders: "headerBytesSent", sentAudioPackets: "packetsSent" },
    "remote-inbound-rtp audio": { toldLoss: "fractionLost" },
    "candidate-pair": { roundTrip: "currentRoundTripTime", estimate: "availableOutgoingBitrate" },
  };
  let connection = null, tracks = null, watch = null;

  async function start() {
    if (connection) return;
    const stream = await navigator.mediaDevices.getUserMedia({
      audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: false }, video: true,
    });
    tracks = [stream.getAudioTracks()[0], stream.getVideoTracks()[0]];
    connection = new RTCPeerConnection({ iceServers: [] });
    connection.ontrack = ({ track }) => {
      // The jitter buffers are emptied by whoever plays them.
      const player = document.createElement(track.kind);
      player.srcObject = new MediaStream([track]);
      player.autoplay = true;
      player.muted = track.kind === "video";
      document.body.append(player);
    };
  }

  /** `slots`: of each kind, beside the one in which it sends as well. */
  async function offer(isRestart = false, slots = 0, maxBitrate = mostBitRate) {
    await start();
    if (isRestart) connection.restartIce();
    else if (!connection.getTransceivers().length) {
      connection.addTransceiver(tracks[0]);
      connection.addTransceiver(tracks[1], { sendEncodings: [{ maxBitrate }] });
      for (const kind of ["audio", "video"]) {
        // With every codec in each of them a long offer would be longer than the relay takes (32 KiB).
        const wanted = RTCRtpReceiver.getCapabilities(kind).codecs.filter(({ mimeType }) => /opus|vp8|rtx/i.test(mimeType));
        for (let count = 0; count < slots; count += 1) {
          connection.addTransceiver(kind, { direction: "recvonly" }).setCodecPreferences(wanted);
        }
      }
    }
    await connection.setLocalDescription();
    return connection.localDescription.sdp;
  }

  async function answer(sdp) {
    await start();
    await connection.setRemoteDescription({ type: "offer", sdp });
    const transceivers = connection.getTransceivers();
    for (const [index, track] of tracks.entries()) {
      if (transceivers[index].sender.track) continue;
      transceivers[index].direction = "sendrecv";
      await transceivers[index].sender.replaceTrack(track);
    }
    await connection.setLocalDescription();
    const { sender } = transceivers[1];
    const parameters = sender.getParameters();
    for (const encoding of parameters.encodings) encoding.maxBitrate = mostBitRate;
    await sender.setParameters(parameters);
    return connection.localDescription.sdp;
  }

  const accept = (sdp) => connection.setRemoteDescription({ type: "answer", sdp });

  async function connected() {
    const end = performance.now() + 15000;
    while (connection.connectionState !== "connected") {
      if (performance.now() > end) throw new Error(`the connection is ${connection.connectionState}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async function sample() {
    const found = Object.fromEntries(Object.values(fields).flatMap(Object.keys).map((name) => [name, 0]));
    for (const item of (await connection.getStats()).values()) {
      if (item.type === "candidate-pair" && !item.nominated) continue;
      const wanted = fields[item.kind ? `${item.type} ${item.kind}` : item.type] ?? {};
      for (const [name, field] of Object.entries(wanted)) found[name] = item[field] || found[name];
    }
    return found;
  }

  /** What the selected pair runs over: udp or tcp. */
  async function protocol() {
    const report = await connection.getStats();
    const transport = [...report.values()].find((item) => item.type === "transport");
    return report.get(report.get(transport?.selectedCandidatePairId)?.localCandidateId)?.protocol ?? null;
  }

  /** What comes in each slot. */
  async function slots() {
    return [...(await connection.getStats()).values()].filter((item) => item.type === "inbound-rtp").map((item) => ({
      kind: item.kind, packets: item.packetsReceived, frames: item.framesDecoded ?? 0, lost: item.packetsLost,
      concealed: (item.concealedSamples ?? 0) - (item.silentConcealedSamples ?? 0), samples: item.totalSamplesReceived ?? 0,
    }));
  }

  /** From now on the longest pauses are measured, to the 50 ms that getStats stays the same for. */
  async function startWatch() {
    const counts = {}, moments = {};
    watch = { moments, longest: { pictureMs: 0, soundMs: 0 } };
    watch.timer = setInterval(async () => {
      const found = await sample(), now = performance.now();
      for (const [name, field] of [["pictureMs", "frames"], ["soundMs", "audioPackets"]]) {
        if (found[field] === counts[name]) continue;
        if (name in moments) watch.longest[name] = Math.max(watch.longest[name], Math.round(now - moments[name]));
        counts[name] = found[field];
        moments[name] = now;
      }
    }, 50);
  }

  async function paused() {
    clearInterval(watch.timer);
    const now = performance.now();
    // With the pause that lasts, if any.
    for (const name of Object.keys(watch.longest)) {
      watch.longest[name] = Math.max(watch.longest[name], Math.round(now - watch.moments[name]));
    }
    return watch.longest;
  }

  async function close() { connection?.close(); }

  return { offer, answer, accept, connected, sample, protocol, slots, watch: startWatch, paused, close };
})();
