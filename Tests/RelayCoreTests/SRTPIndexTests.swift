import RTPCore
import RelayTesting
import Testing

@testable import RelayCore

/// What a receiver did with each packet of an arrival order.
private enum Outcome: String {
    case accept, replay, auth
}

/// The receiver that the estimator's documentation describes. `window` in bits; without `recovers` it never
/// tries another rollover counter (what libsrtp2 does).
private struct Receiver {
    var estimator = PacketIndexEstimator()
    var window: ReplayWindow
    let cipher: SRTPCipher
    var recovers: Bool
    var attempts = 0

    mutating func receive(_ packet: [UInt8]) -> Outcome {
        let number = SRTPFixtures.number(packet)
        let ssrc = SRTPFixtures.word(packet, 8)
        let index = estimator.estimate(number)
        let isFresh = window.check(index)
        let other = recovers ? estimator.alternative(number) : nil
        var copy = packet
        let opened: UInt64? = copy.withUnsafeMutableBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return nil }
            attempts += (isFresh ? 1 : 0) + (other == nil ? 0 : 1)
            if let other, isFresh {
                return cipher.openRTPTrying(
                    base, count: buffer.count, headerByteCount: 12, ssrc: ssrc, index: index,
                    alternative: other)?.index
            }
            guard let candidate = other ?? (isFresh ? index : nil) else { return nil }
            let count = cipher.openRTP(
                base, count: buffer.count, headerByteCount: 12, ssrc: ssrc, index: candidate)
            return count < 0 ? nil : candidate
        }
        guard let opened else {
            estimator.noteRejected()
            return isFresh ? .auth : .replay
        }
        window.mark(opened)
        estimator.update(opened)
        return .accept
    }
}

private func sealed(_ index: UInt64, _ cipher: SRTPCipher) -> [UInt8] {
    cipher.sealed(
        SRTPFixtures.packet(UInt16(truncatingIfNeeded: index), payload: [UInt8](repeating: 0xAB, count: 16)),
        rollover: UInt32(index >> 16))
}

@Suite("SRTP packet index")
struct SRTPIndexTests {
    @Test(
        "arrival orders are taken as libsrtp2 takes them",
        arguments: VectorFile("sequence").rows(), SRTPVariant.all)
    func arrivalOrders(row: VectorRow, variant: SRTPVariant) throws {
        let cipher = variant.cipher()
        var receiver = Receiver(
            window: .create(bitCount: try #require(row["window"].integer)), cipher: cipher, recovers: false)
        defer {
            receiver.window.destroy()
            cipher.destroy()
        }
        let indices = try #require(row["indices"].array).compactMap(\.unsigned)
        let outcomes = indices.map { receiver.receive(sealed($0, cipher)).rawValue }
        #expect(outcomes == row["expect"].array?.compactMap(\.string))
    }

    @Test(
        "libsrtp2 with our window size takes the same packets of a long shuffled stream",
        arguments: SRTPVariant.all)
    func shuffledStream(variant: SRTPVariant) throws {
        let cipher = variant.cipher()
        let oracle = try variant.oracle(.receiving)
        var receiver = Receiver(window: .create(), cipher: cipher, recovers: false)
        defer {
            receiver.window.destroy()
            cipher.destroy()
        }
        var random = RandomSource.seeded(11)
        var front: UInt64 = 60_000
        for _ in 0..<4_000 {
            front += UInt64.random(in: 0...40, using: &random)
            let back = UInt64.random(in: 0...(Bool.random(using: &random) ? 20 : 1_100), using: &random)
            let packet = sealed(front - back, cipher)
            let accepted = (try? oracle.unprotectRTP(packet)) != nil
            #expect((receiver.receive(packet) == .accept) == accepted, "index \(front - back)")
        }
    }

    @Test(
        "an index is guessed as RFC 3711 appendix A does, but never of rollover -1",
        arguments: VectorFile("sequence").rows("guess"))
    func guesses(row: VectorRow) throws {
        let rollover = try #require(row["roc"].unsigned)
        let last = try #require(row["s_l"].unsigned)
        let number = try #require(row["seq"].unsigned)
        var estimator = PacketIndexEstimator()
        estimator.update(rollover << 16 | last)
        let guessed = try #require(row["guessed_roc"].unsigned)
        // rfc3711_literal: while the counter is 0 the appendix guesses 2^32-1; we stay at 0, as libsrtp2
        // does.
        let isBelowZero = rollover == 0 && guessed == 0xFFFF_FFFF
        #expect(estimator.estimate(UInt16(number)) == (isBelowZero ? 0 : guessed) << 16 | number)
    }

    @Test(
        "before anything verified, a sequence number is taken for rollover 0",
        arguments: [0, 1, 32_767, 32_768, 65_535] as [UInt16])
    func firstGuess(number: UInt16) {
        let estimator = PacketIndexEstimator()
        #expect(!estimator.hasVerified)
        #expect(estimator.estimate(number) == UInt64(number))
    }

    @Test("a late packet does not move the estimate back")
    func latePacket() {
        var estimator = PacketIndexEstimator()
        estimator.update(70_000)
        estimator.update(69_990)
        #expect(estimator.highest == 70_000)
    }

    @Test("index 0 counts as verified")
    func indexZero() {
        var estimator = PacketIndexEstimator()
        estimator.update(0)
        #expect(estimator.hasVerified)
        #expect(estimator.highest == 0)
    }

    @Test("an estimator is 16 bytes")
    func size() { #expect(MemoryLayout<PacketIndexEstimator>.size <= 16) }
}

@Suite("SRTP rollover recovery")
struct SRTPRolloverRecoveryTests {
    private func receiver(_ variant: SRTPVariant) -> Receiver {
        Receiver(window: .create(), cipher: variant.cipher(), recovers: true)
    }
    private func end(_ receiver: Receiver) {
        receiver.window.destroy()
        receiver.cipher.destroy()
    }

    @Test(
        "a stream first seen after its wrap is taken at its first packet (C01, C02 a and d)",
        arguments: SRTPVariant.all)
    func firstSeenAfterWrap(variant: SRTPVariant) {
        var receiver = receiver(variant)
        defer { end(receiver) }
        for index: UInt64 in [65_536, 65_537, 65_538] {
            #expect(receiver.receive(sealed(index, receiver.cipher)) == .accept)
        }
        #expect(receiver.estimator.highest == 65_538)
    }

    @Test("the packets before the wrap that come late are taken too", arguments: SRTPVariant.all)
    func lateBeforeWrap(variant: SRTPVariant) {
        var receiver = receiver(variant)
        defer { end(receiver) }
        for index: UInt64 in [65_537, 65_534, 65_536, 65_535] {
            #expect(receiver.receive(sealed(index, receiver.cipher)) == .accept)
        }
    }

    @Test("a gap above 2^15 costs a few packets, not the stream (C02 b)", arguments: SRTPVariant.all)
    func longGap(variant: SRTPVariant) {
        var receiver = receiver(variant)
        defer { end(receiver) }
        #expect(receiver.receive(sealed(40, receiver.cipher)) == .accept)
        for start: UInt64 in [90_000, 170_000, 260_000] {
            let lost = (start..<start + 100).prefix {
                receiver.receive(sealed($0, receiver.cipher)) != .accept
            }
            #expect(lost.count <= 2 * Int(PacketIndexEstimator.attemptInterval), "from \(start)")
        }
    }

    @Test("a whole cycle lost looks like replays first and recovers", arguments: SRTPVariant.all)
    func lostCycle(variant: SRTPVariant) {
        var receiver = receiver(variant)
        defer { end(receiver) }
        for index: UInt64 in 1_000..<1_100 {
            #expect(receiver.receive(sealed(index, receiver.cipher)) == .accept)
        }
        let again: UInt64 = 1_000 + 65_536
        #expect(receiver.receive(sealed(again, receiver.cipher)) == .replay)
        let lost = (again + 1..<again + 100).prefix {
            receiver.receive(sealed($0, receiver.cipher)) != .accept
        }
        #expect(lost.count <= Int(PacketIndexEstimator.attemptInterval))
    }

    @Test(
        "forged packets of an unknown SSRC cost at most a bounded number of second attempts (C02 c)",
        arguments: SRTPVariant.all)
    func forgedFirst(variant: SRTPVariant) {
        var receiver = receiver(variant)
        defer { end(receiver) }
        let noise = SRTPFixtures.packet(10, payload: [UInt8](repeating: 7, count: 60))
        for _ in 0..<3_200 { #expect(receiver.receive(noise) == .auth) }
        let second = receiver.attempts - 3_200
        #expect(second <= 64 + 3_200 / 16 + 1)
        #expect(!receiver.estimator.hasVerified)
    }

    @Test("a forged packet costs a verified stream no second attempt until many failed")
    func forgedLater() {
        var estimator = PacketIndexEstimator()
        estimator.update(500)
        for _ in 0..<15 {
            estimator.noteRejected()
            #expect(estimator.alternative(501) == nil)
        }
        estimator.noteRejected()
        #expect(estimator.alternative(501) == 65_536 + 501)
        estimator.noteRejected()
        #expect(estimator.alternative(501) == nil)
    }

    @Test("a good packet forgets the failures before it")
    func successResets() {
        var estimator = PacketIndexEstimator()
        estimator.update(500)
        for _ in 0..<16 { estimator.noteRejected() }
        estimator.update(501)
        #expect(estimator.alternative(502) == nil)
    }

    @Test("failures without end keep their rhythm and never overflow")
    func saturates() {
        var estimator = PacketIndexEstimator()
        estimator.update(500)
        var due = 0
        for _ in 0..<200_000 {
            estimator.noteRejected()
            if estimator.alternative(501) != nil { due += 1 }
        }
        #expect(abs(due - 200_000 / 16) <= 1)
    }

    @Test("no rollover beyond 2^32 is offered")
    func lastRollover() {
        let last: UInt64 = 1 << 48 - 1
        var estimator = PacketIndexEstimator()
        estimator.update(last)
        for _ in 0..<16 { estimator.noteRejected() }
        #expect(estimator.alternative(.max) == nil)
    }

    @Test(
        "a source that restarts its numbers under the same keys is refused, a new SSRC is taken (C03)",
        arguments: SRTPVariant.all)
    func restartedSource(variant: SRTPVariant) {
        var receiver = receiver(variant)
        defer { end(receiver) }
        for index: UInt64 in 5_000..<5_010 {
            #expect(receiver.receive(sealed(index, receiver.cipher)) == .accept)
        }
        // The numbers restart, but the sender's keys and rollover counter go on: index 17 was never sent and
        // is too old.
        #expect(receiver.receive(sealed(17, receiver.cipher)) == .replay)
        var fresh = Receiver(window: .create(), cipher: receiver.cipher, recovers: true)
        defer { fresh.window.destroy() }
        let packet = receiver.cipher.sealed(
            SRTPFixtures.packet(17, ssrc: 0x1234_5678, payload: [1, 2, 3]), rollover: 0)
        #expect(fresh.receive(packet) == .accept)
    }

    @Test("a failed first attempt gives the second one the packet as it came", arguments: SRTPVariant.all)
    func bufferRestored(variant: SRTPVariant) {
        let cipher = variant.cipher()
        defer { cipher.destroy() }
        for length in [0, 1, 15, 16, 17, 160, 1150] {
            let plain = SRTPFixtures.packet(10, payload: (0..<length).map { UInt8($0 & 255) })
            var packet = cipher.sealed(plain, rollover: 1)
            let opened = packet.withUnsafeMutableBufferPointer { buffer in
                buffer.baseAddress.flatMap {
                    cipher.openRTPTrying(
                        $0, count: buffer.count, headerByteCount: 12, ssrc: 0xCAFE_BABE, index: 10,
                        alternative: 65_546)
                }
            }
            #expect(opened?.index == 65_546)
            #expect(opened.map { Array(packet.prefix($0.byteCount)) } == plain)
        }
    }

    @Test("the first attempt wins when it verifies", arguments: SRTPVariant.all)
    func firstAttemptWins(variant: SRTPVariant) {
        let cipher = variant.cipher()
        defer { cipher.destroy() }
        var packet = cipher.sealed(SRTPFixtures.packet(10, payload: [1, 2, 3]), rollover: 0)
        let opened = packet.withUnsafeMutableBufferPointer { buffer in
            buffer.baseAddress.flatMap {
                cipher.openRTPTrying(
                    $0, count: buffer.count, headerByteCount: 12, ssrc: 0xCAFE_BABE, index: 10,
                    alternative: 65_546)
            }
        }
        #expect(opened?.index == 10)
    }

    @Test("a packet too short for a tag is refused by both attempts", arguments: SRTPVariant.all)
    func shortBoth(variant: SRTPVariant) {
        let cipher = variant.cipher()
        defer { cipher.destroy() }
        for count in 12..<22 {
            var packet = [UInt8](repeating: 0x80, count: count)
            let opened = packet.withUnsafeMutableBufferPointer { buffer in
                buffer.baseAddress.flatMap {
                    cipher.openRTPTrying(
                        $0, count: buffer.count, headerByteCount: 12, ssrc: 1, index: 10, alternative: 65_546)
                }
            }
            #expect(opened == nil)
        }
    }
}
