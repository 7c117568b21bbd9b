// What a call sounds like, made of oscillators. Browsers allow sound after the first click: `unlock` is called there.

let context = null;
let playing = null;

export function unlock() {
  context ??= new AudioContext();
  context.resume();
}

/** One soft note, `at` seconds from now. */
function note(frequency, at, seconds, volume) {
  const start = context.currentTime + at;
  const oscillator = new OscillatorNode(context, { frequency, type: "sine" });
  const gain = new GainNode(context, { gain: 0 });
  gain.gain.setValueAtTime(0, start);
  gain.gain.linearRampToValueAtTime(volume, start + 0.02);
  gain.gain.setValueAtTime(volume, start + seconds * 0.6);
  gain.gain.linearRampToValueAtTime(0, start + seconds);
  oscillator.connect(gain).connect(context.destination);
  oscillator.start(start);
  oscillator.stop(start + seconds);
}

const chime = (at) => [659, 784, 988].forEach((pitch, index) => note(pitch, at + index * 0.14, 0.3, 0.25));

const patterns = {
  /** Somebody calls. */
  ring: { every: 3000, play: () => [0, 0.7].forEach(chime) },
  /** The other's device rings: the tone of European exchanges. */
  ringback: { every: 5000, play: () => note(425, 0, 1, 0.12) },
  /** Somebody else calls during a call. */
  waiting: { every: 4000, play: () => [0, 0.35].forEach((at) => note(880, at, 0.2, 0.08)) },
};

/** Plays a pattern over and over until another, or none, is asked for. */
export function play(name) {
  if (playing?.name === name) return;
  clearInterval(playing?.timer);
  playing = null;
  if (!name || !context) return;
  const { every, play: once } = patterns[name];
  once();
  playing = { name, timer: setInterval(once, every) };
}

/** Two falling notes: it is over. */
export function hangUpTone() {
  if (!context) return;
  note(523, 0, 0.16, 0.12);
  note(392, 0.17, 0.22, 0.12);
}
