/// A table for humans: columns as wide as their content, two spaces between them, a heading in capitals. Pure.
struct TextTable {
    struct Cell: Equatable, ExpressibleByStringLiteral {
        var text: String
        var colour: Terminal.Colour?
        init(_ text: String, _ colour: Terminal.Colour? = nil) {
            self.text = Terminal.printable(text)
            self.colour = colour
        }
        init(stringLiteral text: String) { self.init(text) }
    }

    struct Column {
        var heading: String
        /// Numbers stand right.
        var isRight = false
        init(_ heading: String, right isRight: Bool = false) {
            self.heading = heading
            self.isRight = isRight
        }
    }

    var columns: [Column]
    var rows: [[Cell]] = []

    init(_ columns: [Column]) { self.columns = columns }

    func text(on terminal: Terminal) -> String {
        let widths = columns.indices.map { index in
            rows.reduce(columns[index].heading.count) { max($0, $1[index].text.count) }
        }
        let head = columns.map { Cell($0.heading, .bold) }
        return ([head] + rows).map { line($0, widths, terminal) }.joined()
    }

    private func line(_ cells: [Cell], _ widths: [Int], _ terminal: Terminal) -> String {
        var text = ""
        for (index, cell) in cells.enumerated() {
            let pad = String(repeating: " ", count: widths[index] - cell.text.count)
            let painted = terminal.paint(cell.text, cell.colour)
            let isLast = index == cells.count - 1
            text += columns[index].isRight ? pad + painted : painted + (isLast ? "" : pad)
            if !isLast { text += "  " }
        }
        while text.hasSuffix(" ") { text.removeLast() }
        return text + "\n"
    }
}
