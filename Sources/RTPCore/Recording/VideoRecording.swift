/// One participant's picture as a WebM or Matroska file: begins with the first key frame, keeps the sender's time. Transcodes nothing.
public struct VideoRecording: Sendable {
    private var writer: MatroskaWriter
    public private(set) var frameCount: UInt64 = 0
    public private(set) var keyFrameCount: UInt64 = 0
    /// The size of the latest key frame.
    public private(set) var size: PictureSize

    /// Nil unless `first` is a key frame that says its size.
    public init?(format: VideoFormat, first: VideoFrame, name: String) {
        guard first.isKey, let size = first.size else { return nil }
        self.size = size
        writer = MatroskaWriter(format: format, size: size, configuration: first.configuration, name: name)
    }

    /// In ms, from the first picture to the end of the last.
    public var duration: Int64 { writer.duration }

    /// - Parameter time: ms behind the first picture.
    public mutating func append(_ frame: VideoFrame, at time: Int64) {
        frameCount += 1
        if frame.isKey { keyFrameCount += 1 }
        if let size = frame.size { self.size = size }
        writer.append(frame.bytes, isKey: frame.isKey, at: time)
    }

    public mutating func flush() { writer.flush() }
    public mutating func finish() { writer.finish() }
    public mutating func takeOutput() -> [UInt8] { writer.takeOutput() }
    /// What the end changes of what came before; behind `finish`.
    public var patches: [MatroskaWriter.Patch] { writer.patches }
}
