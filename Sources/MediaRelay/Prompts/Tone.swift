import COpus
import Glibc
import RTPCore
import RelayCore

/// A call's tone: sine waves, bursts and the silence of its cadence, after ITU-T E.180 and Q.23. Made into Opus once, at the
/// start.
package struct Tone: Sendable {
    package var name: String
    /// Hertz; all sound together.
    package var frequencies: [Double]
    /// Milliseconds of sound and silence in turn, beginning with sound; whole packets of 20 ms.
    package var bursts: [Int]
    /// Between two times.
    package var pause: Interval

    package static let sampleRate = 48_000
    static let packetMilliseconds = 20
    /// Samples over which a burst rises and falls, so that it does not click: 5 ms.
    private static let ramp = 240
    /// Of the loudest that can be represented; as loud as a voice that stands close.
    private static let amplitude = 0.25
    /// Packets of silence behind the sound: where nothing follows, a decoder goes on with what it had last.
    private static let trailingPackets = 3
    /// Bytes of a packet at most: 32 kbit/s.
    private static let packetByteCount = 80

    /// Every tone that a prompt can name.
    package static let all: [Tone] =
        [
            Tone(name: "ringback", frequencies: [425], bursts: [1_000], pause: .milliseconds(4_000)),
            Tone(name: "busy", frequencies: [425], bursts: [500], pause: .milliseconds(500)),
            Tone(name: "congestion", frequencies: [425], bursts: [240], pause: .milliseconds(260)),
            Tone(name: "waiting", frequencies: [425], bursts: [200, 200, 200], pause: .milliseconds(5_000)),
            Tone(name: "recording", frequencies: [1_400], bursts: [400], pause: .milliseconds(15_000)),
            Tone(
                name: "warning", frequencies: [1_000], bursts: [100, 100, 100, 100, 100],
                pause: .milliseconds(10_000)),
        ] + digits

    private static let digits: [Tone] = {
        let rows: [Double] = [697, 770, 852, 941]
        let columns: [Double] = [1_209, 1_336, 1_477]
        let names = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "star", "0", "pound"]
        return names.enumerated().map { index, name in
            Tone(
                name: "dtmf-\(name)", frequencies: [rows[index / 3], columns[index % 3]], bursts: [160],
                pause: .milliseconds(80))
        }
    }()

    /// Mono, 48 kHz.
    package var samples: [Int16] {
        var samples: [Int16] = []
        for (index, milliseconds) in bursts.enumerated() {
            let count = milliseconds * Self.sampleRate / 1_000
            for position in 0..<count { samples.append(index.isMultiple(of: 2) ? sample(position, of: count) : 0) }
        }
        let packet = Self.packetMilliseconds * Self.sampleRate / 1_000
        let wanted = (samples.count + packet - 1) / packet * packet + Self.trailingPackets * packet
        return samples + Array(repeating: 0, count: wanted - samples.count)
    }

    private func sample(_ position: Int, of count: Int) -> Int16 {
        let edge = Double(min(position, count - 1 - position, Self.ramp)) / Double(Self.ramp)
        let time = Double(position) / Double(Self.sampleRate)
        let sum = frequencies.reduce(0) { $0 + sin(2 * .pi * $1 * time) }
        return Int16(32_767 * Self.amplitude * edge * sum / Double(frequencies.count))
    }

    /// Nil only where there is no memory for an encoder.
    package func sound() -> Sound? {
        // CELT alone: what is made for voices bends two tones that sound together.
        guard let encoder = opus_encoder_create(Int32(Self.sampleRate), 1, OPUS_APPLICATION_RESTRICTED_LOWDELAY, nil)
        else {
            return nil
        }
        defer { opus_encoder_destroy(encoder) }
        let samples = samples
        let count = Self.packetMilliseconds * Self.sampleRate / 1_000
        var packets: [[UInt8]] = []
        var packet = [UInt8](repeating: 0, count: Self.packetByteCount)
        for start in stride(from: 0, to: samples.count, by: count) {
            let byteCount = opus_encode(
                encoder, Array(samples[start..<start + count]), Int32(count), &packet, Int32(packet.count))
            guard byteCount > 0 else { return nil }
            packets.append(Array(packet[..<Int(byteCount)]))
        }
        return Sound(packets: packets)
    }
}
