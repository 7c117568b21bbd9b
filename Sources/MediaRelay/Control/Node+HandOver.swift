import RTPCore
import RelayHTTP

// The end of a program whose node goes on: everything that was asked is answered, everything that was decided is on disk, calls stay
// with their workers, and the next program in this process takes over from the journal, as after a crash, but with the sockets.

extension Node {
    /// Stops everything but the calls.
    func handOver() -> HandOver {
        // Clients that wait for events ask again; a page without events is an answer.
        journalThread.post(.releasePages)
        let http = server.handOver()
        mailbox.post(.handOver)
        control.join()
        // What is under way there is posted again: at least once is the promise.
        webhooks.stop(newest: journalThread.newestEvent, grace: .zero)
        journalThread.stop()
        callLog.stop()
        var handOver = HandOver(http: http, image: nil, randomSecret: randomSecret)
        handOver.arguments = CommandLine.arguments
        return handOver
    }
}
