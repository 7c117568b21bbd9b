import RelayCore
import Testing

@Suite("Drop reasons") struct DropReasonTests {
    @Test("a reason's label is its words with hyphens, an acronym in one") func labels() {
        #expect(DropReason.rtpUnknownAddress.name == "rtp-unknown-address")
        #expect(DropReason.rtcpForeignSSRC.name == "rtcp-foreign-ssrc")
        #expect(DropReason.empty.name == "empty")
    }

    @Test("no two reasons share a label") func unique() {
        #expect(Set(DropReason.allCases.map(\.name)).count == DropReason.allCases.count)
    }

    @Test("a drop counts its own reason and the sum") func counting() {
        let counters = EngineCounters()
        counters.drop(.rtpReplayed)
        counters.drop(.rtpReplayed)
        counters.drop(.empty)
        #expect(counters[.rtpReplayed] == 2 && counters[.empty] == 1 && counters[.rtpTooOld] == 0)
        #expect(counters.dropped == 3)
    }
}
