import MediaRelay

/// Completion scripts for shells, made of the table: commands, their verbs, options, and the values that are known.
enum Completion {
    static func script(for shell: String) -> String {
        switch shell {
        case "bash": bash
        case "zsh": zsh
        case "fish": fish
        default: preconditionFailure("the table allows no shell \(shell)")
        }
    }

    private static let commands = Command.all.filter { !$0.isHidden }

    /// First words, each once, with the verbs that may follow.
    private static var groups: [(word: String, verbs: [Command])] {
        var groups: [(word: String, verbs: [Command])] = []
        for command in commands where !groups.contains(where: { $0.word == command.path[0] }) {
            groups.append((command.path[0], commands.filter { $0.path[0] == command.path[0] && $0.path.count > 1 }))
        }
        return groups
    }

    static func options(of command: Command) -> [Command.Option] {
        guard command.takesNodeOptions else { return command.options }
        return command.options
            + NodeOption.all.map { option in
                let value: Command.Option.Value =
                    switch option.form {
                    case .on: .none
                    case .word(let words): .words(words)
                    case .file: .file
                    case .folder: .folder
                    default: .text
                    }
                return Command.Option(
                    name: option.name.rawValue, shown: option.value, value: value, summary: option.summary)
            }
    }

    // MARK: bash

    private static var bash: String {
        var text = """
            # bash completion of media-relay
            _media_relay() {
                local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
                local path=${COMP_WORDS[1]-}
                COMPREPLY=()
                if [ "$COMP_CWORD" -eq 1 ]; then
                    COMPREPLY=($(compgen -W "\(groups.map(\.word).joined(separator: " "))" -- "$current"))
                    return
                fi
                case "$path" in

            """
        for group in groups where !group.verbs.isEmpty {
            text += """
                        \(group.word))
                            if [ "$COMP_CWORD" -eq 2 ]; then
                                COMPREPLY=($(compgen -W "\(group.verbs.map { $0.path[1] }.joined(separator: " "))" -- "$current"))
                                return
                            fi
                            path="$path ${COMP_WORDS[2]}" ;;

                """
        }
        text += "    esac\n    case \"$path $before\" in\n"
        for command in commands {
            for option in options(of: command) where option.value != .none {
                let reply =
                    switch option.value {
                    case .file: "$(compgen -f -- \"$current\")"
                    case .folder: "$(compgen -d -- \"$current\")"
                    case .words(let words): "$(compgen -W \"\(words.joined(separator: " "))\" -- \"$current\")"
                    case .text, .none: ""
                    }
                text += "        \"\(command.name) --\(option.name)\") COMPREPLY=(\(reply)); return ;;\n"
            }
        }
        text += "    esac\n    case \"$path\" in\n"
        for command in commands {
            let words = options(of: command).map { "--" + $0.name } + command.operands.flatMap(\.words) + ["--help"]
            text +=
                "        \"\(command.name)\") COMPREPLY=($(compgen -W \"\(words.joined(separator: " "))\" -- \"$current\")) ;;\n"
        }
        return text + "    esac\n}\ncomplete -F _media_relay media-relay\n"
    }

    // MARK: zsh

    private static var zsh: String {
        var text = """
            #compdef media-relay
            # zsh completion of media-relay
            _media_relay() {
                local chosen=${words[2]}
                if (( CURRENT == 2 )); then
                    local -a found=(\(groups.map { zshWord($0.word, $0.verbs.isEmpty ? summary($0.word) : "") }.joined(separator: " ")))
                    _describe command found
                    return
                fi
                case $chosen in

            """
        for group in groups where !group.verbs.isEmpty {
            let verbs = group.verbs.map { zshWord($0.path[1], $0.summary) }.joined(separator: " ")
            text += """
                        \(group.word))
                            if (( CURRENT == 3 )); then
                                local -a found=(\(verbs))
                                _describe verb found
                                return
                            fi
                            chosen="$chosen ${words[3]}"
                            shift words; (( CURRENT-- )) ;;

                """
        }
        text += "    esac\n    shift words; (( CURRENT-- ))\n    case $chosen in\n"
        for command in commands {
            let options = options(of: command).map(zshOption) + ["'--help[what it does]'"]
            let operands = command.operands.map { operand in
                operand.words.isEmpty
                    ? "':\(operand.name):'" : "':\(operand.name):(\(operand.words.joined(separator: " ")))'"
            }
            text += "        '\(command.name)') _arguments \((options + operands).joined(separator: " ")) ;;\n"
        }
        return text
            + "    esac\n}\nif [ \"$funcstack[1]\" = _media_relay ]; then _media_relay; else compdef _media_relay media-relay; fi\n"
    }

    private static func summary(_ word: String) -> String { Command.named([word])?.summary ?? "" }

    private static func zshWord(_ word: String, _ summary: String) -> String {
        "'" + word + (summary.isEmpty ? "" : ":" + zshText(summary)) + "'"
    }

    private static func zshOption(_ option: Command.Option) -> String {
        let action =
            switch option.value {
            case .none: ""
            case .text: ":\(zshText(option.shown)):"
            case .file: ":\(zshText(option.shown)):_files"
            case .folder: ":\(zshText(option.shown)):_files -/"
            case .words(let words): ":\(zshText(option.shown)):(\(words.joined(separator: " ")))"
            }
        return "'--\(option.name)[\(zshText(option.summary))]\(action)'"
    }

    private static func zshText(_ text: String) -> String {
        var result = ""
        for character in text {
            switch character {
            case "'": result += "'\\''"
            case ":", "[", "]", "\\": result += "\\\(character)"
            default: result.append(character)
            }
        }
        return result
    }

    // MARK: fish

    private static var fish: String {
        var text = "# fish completion of media-relay\ncomplete -c media-relay -f\n"
        for group in groups {
            let summary = group.verbs.isEmpty ? " -d \(fishText(summary(group.word)))" : ""
            text += "complete -c media-relay -n __fish_use_subcommand -a \(group.word)\(summary)\n"
            let verbs = group.verbs.map { $0.path[1] }.joined(separator: " ")
            for verb in group.verbs {
                text += "complete -c media-relay -n '__fish_seen_subcommand_from \(group.word); and not "
                text += "__fish_seen_subcommand_from \(verbs)' -a \(verb.path[1]) -d \(fishText(verb.summary))\n"
            }
        }
        for command in commands {
            let condition = command.path.map { "__fish_seen_subcommand_from \($0)" }.joined(separator: "; and ")
            let head = "complete -c media-relay -n '\(condition)'"
            for operand in command.operands where !operand.words.isEmpty {
                text += "\(head) -a '\(operand.words.joined(separator: " "))'\n"
            }
            for option in options(of: command) {
                let value =
                    switch option.value {
                    case .none: ""
                    case .text: " -x"
                    case .file: " -r -F"
                    case .folder: " -x -a '(__fish_complete_directories)'"
                    case .words(let words): " -x -a '\(words.joined(separator: " "))'"
                    }
                text += "\(head) -l \(option.name)\(value) -d \(fishText(option.summary))\n"
            }
        }
        return text
    }

    private static func fishText(_ text: String) -> String {
        "'" + text.replacing("\\", with: "\\\\").replacing("'", with: "\\'") + "'"
    }
}
