"""What the lab's clients send: a picture that pans slowly under fine noise, and a voice-like sound, the same in every run.

The noise fills whatever rate an encoder is given, up to some Mbit/s; the picture is small, so that four clients on two cores
keep their frame rate. The sound is speech to an encoder, which is what Opus protects by forward error correction (a steady tone
is music to it). Both go round without a seam.
"""
import array
import functools
import math
import random
import wave

WIDTH, HEIGHT, RATE = 320, 240, 25
PAN = 50  # pictures there and back again: two seconds
SAMPLE_RATE, SECONDS = 48_000, 2
BLOCK = SAMPLE_RATE // 100  # 10 ms


@functools.cache
def pictures():
    """Two seconds of I420 pictures."""
    wide = WIDTH + PAN * 2
    rows = [
        bytes(
            int(112 + 48 * math.sin(x / 17 + 2 * math.sin(y / 23)) + 40 * math.sin(y / 9 + x / 41) + (12 if (x // 32 + y // 24) % 2 else 0))
            for x in range(wide))
        for y in range(HEIGHT)]
    chroma = bytes(
        int(128 + 40 * math.sin(x / 13 + y / 29)) for y in range(HEIGHT // 2) for x in range(WIDTH // 2)) * 2
    source, amplitude = random.Random(7), bytes(value >> 4 for value in range(256))
    found = []
    for step in range(PAN):
        left = 2 * (step if step < PAN // 2 else PAN - step)
        still = int.from_bytes(b"".join(row[left:left + WIDTH] for row in rows), "little")
        noise = int.from_bytes(source.randbytes(WIDTH * HEIGHT).translate(amplitude), "little")
        # Every byte's sum stays below 256: no carry.
        found.append((still + noise).to_bytes(WIDTH * HEIGHT, "little") + chroma)
    return found


@functools.cache
def sound():
    """Two seconds of 16-bit mono sound in blocks of 10 ms: syllables of a gliding pitch through changing formants, hisses and pauses."""
    # Of each syllable: seconds, pitch at its begin and end, the two formants, loudness; no pitch: a hiss.
    syllables = (
        (0.07, 0, 0, 3200, 4200, 0.25), (0.22, 112, 138, 660, 1720, 1.0), (0.16, 138, 121, 300, 2200, 0.9), (0.06, 0, 0, 2500, 4000, 0.2),
        (0.24, 128, 98, 730, 1090, 1.0), (0.15, 0, 0, 0, 0, 0.0), (0.20, 104, 131, 500, 1000, 0.9), (0.05, 0, 0, 3600, 4600, 0.3),
        (0.26, 135, 101, 270, 2290, 0.9), (0.18, 118, 92, 570, 840, 1.0), (0.41, 0, 0, 0, 0, 0.0))
    source, found = random.Random(9), array.array("h")
    phase, memory = 0.0, [0.0] * 4
    for seconds, begin, end, low, high, loudness in syllables:
        count = round(seconds * SAMPLE_RATE)
        ways = [resonator(frequency, 90 if begin else 600) for frequency in (low, high)]
        for index in range(count):
            pitch = begin + (end - begin) * index / count
            phase += pitch / SAMPLE_RATE
            pulse = 0.0
            if phase >= 1:
                phase, pulse = phase - 1, 40.0
            given = pulse + source.gauss(0, 0.25 if begin else 1)
            out = 0.0
            for k, (gain, a, b) in enumerate(ways):
                value = gain * given + a * memory[2 * k] + b * memory[2 * k + 1]
                memory[2 * k + 1], memory[2 * k] = memory[2 * k], value
                out += value
            edge = min(1.0, index / 480, (count - index) / 480)
            found.append(int(max(-30_000, min(30_000, 2_600 * loudness * edge * out))))
    return [found[start:start + BLOCK].tobytes() for start in range(0, SECONDS * SAMPLE_RATE, BLOCK)]


def resonator(frequency, width):
    """Gain and both coefficients of a filter that rings at `frequency`, Hz."""
    radius = math.exp(-math.pi * width / SAMPLE_RATE)
    return 1 - radius, 2 * radius * math.cos(2 * math.pi * frequency / SAMPLE_RATE), -radius * radius


def write_camera(path):
    """The pictures as a file that Chromium takes for a camera (YUV4MPEG2)."""
    with open(path, "wb") as out:
        out.write(f"YUV4MPEG2 W{WIDTH} H{HEIGHT} F{RATE}:1 Ip A1:1 C420jpeg\n".encode())
        for picture in pictures():
            out.write(b"FRAME\n" + picture)


def write_microphone(path):
    """The sound as a file that Chromium takes for a microphone."""
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(SAMPLE_RATE)
        out.writeframes(b"".join(sound()))
