/// This program's version (semantic versioning); the changelog says what changed.
package enum Version {
    package static let text = "0.2.0"
}
