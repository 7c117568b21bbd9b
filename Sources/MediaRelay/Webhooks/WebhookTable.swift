/// Where the webhook endpoints stand, in the journal's file: a cursor for each and the cursors of the streams that
/// are behind it. Confined to the journal thread.
final class WebhookTable {
    private let putCursor: SQLiteStatement
    private let putArrear: SQLiteStatement
    private let deleteArrear: SQLiteStatement
    private let selectCursors: SQLiteStatement
    private let selectArrears: SQLiteStatement

    init(_ database: SQLiteDatabase) throws(SQLiteError) {
        try database.execute(
            """
            CREATE TABLE IF NOT EXISTS webhooks (name TEXT PRIMARY KEY, cursor INTEGER NOT NULL) WITHOUT ROWID;
            CREATE TABLE IF NOT EXISTS webhookArrears (
                name TEXT NOT NULL, stream TEXT NOT NULL, seq INTEGER NOT NULL,
                PRIMARY KEY (name, stream)) WITHOUT ROWID;
            """)
        putCursor = try database.prepare("INSERT OR REPLACE INTO webhooks VALUES (?, ?)")
        putArrear = try database.prepare("INSERT OR REPLACE INTO webhookArrears VALUES (?, ?, ?)")
        deleteArrear = try database.prepare("DELETE FROM webhookArrears WHERE name = ? AND stream = ?")
        selectCursors = try database.prepare("SELECT name, cursor FROM webhooks")
        selectArrears = try database.prepare("SELECT stream, seq FROM webhookArrears WHERE name = ?")
    }

    func write(_ progress: WebhookProgress) throws(SQLiteError) {
        try putCursor.run(.text(progress.endpoint), .integer(Int64(clamping: progress.cursor)))
        for arrear in progress.arrears {
            if let seq = arrear.seq {
                try putArrear.run(.text(progress.endpoint), .text(arrear.stream), .integer(Int64(clamping: seq)))
            } else {
                try deleteArrear.run(.text(progress.endpoint), .text(arrear.stream))
            }
        }
    }

    func all() throws(SQLiteError) -> [WebhookProgress] {
        var all: [WebhookProgress] = []
        try selectCursors.bind()
        while try selectCursors.step() {
            all.append(
                WebhookProgress(
                    endpoint: selectCursors.text(0), cursor: UInt64(clamping: selectCursors.integer(1)), arrears: []))
        }
        for index in all.indices {
            try selectArrears.bind(.text(all[index].endpoint))
            while try selectArrears.step() {
                all[index].arrears.append(
                    .init(stream: selectArrears.text(0), seq: UInt64(clamping: selectArrears.integer(1))))
            }
        }
        return all
    }
}
