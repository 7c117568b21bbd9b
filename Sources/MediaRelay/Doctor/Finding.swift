/// One thing that the doctor looked at: how it stands and what to do about it.
package struct Finding: Hashable, Sendable {
    package enum Status: String, Sendable, CaseIterable {
        case ok
        /// It works, but not as well or as safely as it could.
        case warn
        /// A node would not start, or calls would fail.
        case fail
    }
    /// What was looked at: a word for programs.
    package var check: String
    package var status: Status
    package var detail: String
    package var advice: String?

    package init(_ check: String, _ status: Status, _ detail: String, advice: String? = nil) {
        self.check = check
        self.status = status
        self.detail = detail
        self.advice = advice
    }
}
