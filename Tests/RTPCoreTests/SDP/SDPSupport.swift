import Foundation
import RTPCore

// What the SDP tests share: recorded descriptions, small ones made of lines, and errors as values.

let recordedSDPNames = [
    "aiortc-p2p-answer", "aiortc-p2p-offer", "chromium-datachannel", "chromium-h264",
    "chromium-loopback-datachannel", "chromium-loopback-h264", "chromium-loopback-plain",
    "chromium-loopback-recvonly-nogum", "chromium-loopback-simulcast", "chromium-loopback-svc-L3T3-vp9",
    "chromium-p2p-answer", "chromium-p2p-offer", "chromium-plain", "chromium-recvonly-nogum",
    "chromium-simulcast", "chromium-svc-L3T3-vp9", "firefox-p2p-answer", "firefox-p2p-offer",
    "firefox-simulcast", "gst-p2p-answer", "gst-p2p-offer", "gst-sfu-offer", "libdatachannel-sfu-offer",
    "wrtc-p2p-answer", "wrtc-p2p-offer", "wrtc-simulcast",
]

let sdpFolder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().appendingPathComponent("Fixtures/sdp")

func recordedSDP(_ name: String) throws -> [UInt8] {
    Array(try Data(contentsOf: sdpFolder.appendingPathComponent(name + ".sdp")))
}

let sessionLines = ["v=0", "o=- 1 2 IN IP4 127.0.0.1", "s=-", "t=0 0"]

func sdpBytes(_ lines: [String], ending: String = "\r\n") -> [UInt8] {
    Array(lines.map { $0 + ending }.joined().utf8)
}

/// A description with these lines at session level.
func readSession(_ lines: String...) throws(SDPError) -> SessionDescription {
    try SessionDescription(parsing: sdpBytes(sessionLines + lines))
}

/// The one section of a description with these lines below an audio m-line of payload types 111 and 96.
func readMedia(_ lines: String...) throws(SDPError) -> SessionDescription.Media {
    let all = sessionLines + ["m=audio 9 UDP/TLS/RTP/SAVPF 111 96"] + lines
    return try SessionDescription(parsing: sdpBytes(all)).media[0]
}

/// The error of a description whose fifth line is this m-line and whose sixth and later ones are `lines`.
func mediaError(_ lines: String..., media: String = "m=audio 9 UDP/TLS/RTP/SAVPF 111 96") -> SDPError? {
    sdpError(sdpBytes(sessionLines + [media] + lines))
}

func sdpError(_ bytes: [UInt8]) -> SDPError? {
    do {
        _ = try SessionDescription(parsing: bytes)
        return nil
    } catch {
        return error
    }
}
