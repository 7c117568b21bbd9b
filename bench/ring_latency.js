// Runs in a page of the relay (bench/ring_latency.py evaluates it there): one ring with both sides in this page, and
// when each side first hears and sees the other, in milliseconds after the answer. Both sides talk WebRTC by the
// page's session.js.

(() => {
  let devices = null;

  /** A tone that is never silent, and the browser's fake camera; both open before anything is measured. */
  async function open() {
    const context = new AudioContext();
    const tone = new OscillatorNode(context, { frequency: 440 });
    const destination = new MediaStreamAudioDestinationNode(context, { channelCount: 1 });
    tone.connect(destination);
    tone.start();
    const video = { width: { exact: 640 }, height: { exact: 480 }, frameRate: { ideal: 30 } };
    const camera = await navigator.mediaDevices.getUserMedia({ video });
    return () => new MediaStream([
      destination.stream.getAudioTracks()[0].clone(), camera.getVideoTracks()[0].clone(),
    ]);
  }

  /** When the first block with signal leaves the jitter buffer, and when the first picture leaves the decoder. */
  function watch(connection, found, side) {
    connection.addEventListener("track", async ({ track }) => {
      if (track.kind === "audio") {
        // The jitter buffer is emptied by whoever plays it.
        const player = new Audio();
        player.srcObject = new MediaStream([track]);
        player.play();
      }
      const reader = new MediaStreamTrackProcessor({ track }).readable.getReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        const isThere = track.kind === "video" || isLoud(value);
        value.close();
        if (!isThere) continue;
        found[`${side} ${track.kind === "video" ? "sees" : "hears"}`] ??= performance.now();
        reader.cancel();
        return;
      }
    });
  }

  function isLoud(block) {
    const samples = new Float32Array(block.numberOfFrames);
    block.copyTo(samples, { planeIndex: 0, format: "f32-planar" });
    return samples.some((sample) => Math.abs(sample) > 0.02);
  }

  async function until(condition, ms, what) {
    const end = performance.now() + ms;
    while (!condition()) {
      if (performance.now() > end) throw new Error(`no ${what} within ${ms} ms`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  /** `mode`: prepared (callee ready, no tracks), early (newest key frame first, too), cold (callee has nothing). */
  globalThis.measureRing = async ({ room, caller, callee, mode }) => {
    const { Session, ask } = await import("/session.js");
    devices ??= await open();
    const found = {}, streams = [devices(), devices()];
    const session = (token) => {
      const made = new Session({ room, token });
      const prepare = made.prepare.bind(made);
      made.ready = (options) => {
        const promise = prepare(options);
        // The connection is made in the first turn of `prepare`, its tracks come later.
        watch(made.connection, found, token === caller ? "caller" : "callee");
        return promise;
      };
      return made;
    };
    const isUp = (one) => until(() => one.connection.connectionState === "connected", 10000, "connection");
    const first = session(caller), second = session(callee);
    try {
      const early = mode === "early" ? "&earlyKeyFrame=1" : "";
      await first.ready({ stream: streams[0], query: `state=prepared&join=on-answer${early}` });
      await isUp(first);
      if (mode !== "cold") {
        await second.ready();
        await isUp(second);
      }
      await new Promise((resolve) => setTimeout(resolve, 1500));
      await ask("/healthz");  // the connection is warm
      const answered = performance.now();
      if (mode === "cold") await second.ready({ stream: streams[1], query: "state=joined" });
      else await Promise.all([second.send(streams[1]), second.join()]);
      await until(() => Object.keys(found).length === 4, 8000, "media on both sides");
      return Object.fromEntries(Object.entries(found).map(([name, time]) => [name, time - answered]));
    } finally {
      await second.leave().catch(() => {});
      for (const one of [first, second]) one.close();
      for (const stream of streams) for (const track of stream.getTracks()) track.stop();
    }
  };
})();
